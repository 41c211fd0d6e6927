// Tells OpenCode's model at every turn where the research stands, and lets /auto go on over several turns: as long as
// the record moves, and a bounded number of times. OpenCode loads this file by itself; it needs no package.
import type { Plugin } from "@opencode-ai/plugin"
import { execFile } from "node:child_process"

const COMMAND: string[] = {{command}}
const TURNS = 10 // after the first one, where /auto names no number
const MOST_TURNS = 50

export const Perpetual: Plugin = async ({ client, directory }) => {
  const loops = new Map<string, { left: number; seq: number }>()

  // What Perpetual prints, or "" where it fails or takes longer.
  const ask = (seconds: number, ...words: string[]): Promise<string> =>
    new Promise((done) => {
      const options = { cwd: directory, timeout: seconds * 1000, maxBuffer: 1 << 20 }
      execFile(COMMAND[0], [...COMMAND.slice(1), ...words], options, (error, out) => done(error ? "" : String(out)))
    })

  // The number of the record's last commit; -1 where it cannot be had. Nobody waits for it, and it decides whether a
  // loop ends, so a busy machine gets its time.
  const seq = async (): Promise<number> => {
    try {
      return JSON.parse(await ask(60, "status", "--json")).seq
    } catch {
      return -1
    }
  }

  return {
    "experimental.chat.system.transform": async (_input, output) => {
      if (output.system[0]?.startsWith("You are a title generator")) return
      const brief = await ask(20, "brief", "--tokens", "400")
      if (brief) output.system.push(`Where this project's research stands now, from \`perpetual brief\`:\n\n${brief}`)
    },

    "command.execute.before": async ({ command, sessionID, arguments: words }) => {
      loops.delete(sessionID)
      if (command !== "auto") return
      const asked = Number.parseInt(words.match(/\d+/)?.[0] ?? String(TURNS), 10)
      loops.set(sessionID, { left: Math.min(asked, MOST_TURNS), seq: await seq() })
    },

    event: async ({ event }) => {
      if (event.type === "session.error" && event.properties.sessionID) loops.delete(event.properties.sessionID)
      if (event.type !== "session.idle") return
      const id = event.properties.sessionID
      const loop = loops.get(id)
      if (!loop) return
      const now = await seq()
      if (loops.get(id) !== loop) return // meanwhile a person stopped it, or began another
      if (loop.left < 1 || now < 0 || now === loop.seq) {
        loops.delete(id) // enough, or the last turn changed nothing
        return
      }
      loops.set(id, { left: loop.left - 1, seq: now })
      const text = `Go on with the next round of /auto (${loop.left - 1} left after it), or say why you stop.`
      await client.session.promptAsync({ path: { id }, body: { agent: "perpetual", parts: [{ type: "text", text }] } })
    },
  }
}
