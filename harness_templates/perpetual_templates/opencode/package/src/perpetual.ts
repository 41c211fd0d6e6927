// The Perpetual lab in OpenCode: where the research stands is part of the system prompt, read once for each message of
// the person; /auto goes on over several turns, as `perpetual auto` decides. OpenCode loads this file by itself: it
// needs no package, and its only import is of types. Where the lab itself drives OpenCode it does nothing.
import type { Config, Plugin } from "@opencode-ai/plugin"
import { execFile } from "node:child_process"

const COMMAND: string[] = ["perpetual"]
const ROUNDS = 10 // after the first turn, where /auto names no number
const MOST_ROUNDS = 50
const MOST_WORDS = 20_000 // characters of a last message that are handed over
const BRIEF_TOKENS = "400"
const COLOR = "#a855f7"
const OWN_MARKS = ["AGENT", "OPENCODE"] // what OpenCode sets for its shells, and so for this plugin

// Commands and agent for a project whose own files have none of these names.
const COMMANDS: Record<string, { description: string; template: string }> = {
  auto: {
    description: "Go on with the research until there is a reason to stop",
    template:
      "Go on with the research of this project by yourself. Read `perpetual brief`, do the first step of its Next " +
      "that is yours, wait for the runs that you need, and record what was learned. Never approve in a person's " +
      "place. Stop where every hypothesis is decided, only a person's work is left, the budget is spent or you would " +
      "have to guess, and say why. The person added: $ARGUMENTS",
  },
  stop: {
    description: "Stop working on the research, and say where it stands",
    template:
      "Stop working by yourself: start nothing new. Run `perpetual scan`, say which runs are live or queued and where " +
      "the research stands, in a few lines. The person added: $ARGUMENTS",
  },
  report: {
    description: "Report what the research has shown",
    template:
      "Run `perpetual scan`, then `perpetual report`. Answer with each hypothesis, its verdict and the numbers behind " +
      "it, with their ids. Every number comes from the record. The person added: $ARGUMENTS",
  },
  catchup: {
    description: "Say where the research stands",
    template:
      "Read `perpetual brief` and `perpetual runs`; run and change nothing. Say in at most fifteen lines what was " +
      "decided, what runs, what waits for a person and what you would do next. The person added: $ARGUMENTS",
  },
}
const AGENT = {
  description: "Does machine-learning research in this project's Perpetual lab.",
  mode: "all" as const,
  color: COLOR,
  prompt:
    "You do machine-learning research in a project whose record is kept by Perpetual. Go by the record: " +
    "`perpetual brief` says where it stands. State the hypothesis and its prediction before a run, propose " +
    "experiments, let a person approve them, and take every number from the record.",
}

type Answer = { ok: boolean; text: string }
type Document = Record<string, unknown>
type Loop = { isOurs: boolean; isAsking: boolean } // isOurs: the next message of the session is not a person's

export const Perpetual: Plugin = async ({ client, directory }) => {
  if (process.env.PERPETUAL_DISPATCH) return {}
  const states = new Map<string, string>() // session -> its text in the system prompt
  const loops = new Map<string, Loop>() // the sessions that /auto has armed

  const ask = (seconds: number, words: string[], env: NodeJS.ProcessEnv = process.env, input = ""): Promise<Answer> =>
    new Promise((done) => {
      const options = { cwd: directory, timeout: seconds * 1000, maxBuffer: 1 << 20, env }
      const started = execFile(COMMAND[0] ?? "perpetual", [...COMMAND.slice(1), ...words], options, (error, out) =>
        done({ ok: !error, text: String(out) }),
      )
      started.stdin?.on("error", () => undefined) // it reads no further
      started.stdin?.end(input)
    })

  const toast = async (message: string, variant: "info" | "success" | "warning"): Promise<void> => {
    try {
      await client.tui.showToast({ body: { title: "Perpetual", message, variant } })
    } catch {
      return // there is no screen
    }
  }

  // Reads where the research stands. The text keeps its bytes until something of it changes, and so does the prefix of
  // the prompt, which providers cache: the number of the event is left out.
  const refresh = async (session: string): Promise<void> => {
    const { ok, text } = await ask(20, ["brief", "--tokens", BRIEF_TOKENS])
    if (ok && text) states.set(session, text.replace(/ \(event \d+\)/, "").trimEnd())
  }

  const end = async (session: string, why: string): Promise<void> => {
    if (loops.delete(session)) await ask(60, ["auto", "stop", "--session", session, "--why", why])
  }

  // Writes down how the session leaves the research, for whichever agent comes next.
  const leave = async (session: string): Promise<void> => {
    let words = ""
    try {
      const { data } = await client.session.messages({ path: { id: session } })
      const last = data?.filter(({ info }) => info.role === "assistant").at(-1)
      words = (last?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n")
    } catch {
      return // the session is gone
    }
    const event = { harness: "opencode", session_id: session, last_assistant_message: words.slice(-MOST_WORDS) }
    await ask(60, ["hook", "stop"], process.env, JSON.stringify(event))
  }

  const start = async (session: string, rounds: number): Promise<string> => {
    const env = { ...process.env }
    for (const mark of OWN_MARKS) delete env[mark] // the person has typed it, not an agent
    const words = ["auto", "start", "--session", session, "--harness", "opencode", "--rounds", String(rounds)]
    const { ok, text } = await ask(60, [...words, "--pid", String(process.pid), "--json"], env)
    if (ok) {
      loops.set(session, { isOurs: true, isAsking: false })
      await toast(`/auto: ${rounds} further rounds at most`, "info")
      return (
        `/auto is in force: when you end your turn you are asked to go on, ${rounds} times at most, for as long as ` +
        "the record moves and something is left that is not a person's to do. Make one round a turn."
      )
    }
    const why = message(text)
    await toast(`/auto: ${why}`, "warning")
    return `/auto is not in force: ${why}. Tell the person so, start nothing by yourself and end your turn.`
  }

  const next = async (session: string, loop: Loop): Promise<void> => {
    if (loop.isAsking) return
    loop.isAsking = true
    const words = ["auto", "next", "--session", session, "--harness", "opencode", "--json"]
    const { ok, text } = await ask(120, words)
    loop.isAsking = false
    if (loops.get(session) !== loop) return // meanwhile a person stopped it, or began another
    const found = ok ? parsed(text) : {}
    if (found.go_on !== true || typeof found.text !== "string") {
      loops.delete(session)
      await toast(`/auto has ended: ${ok ? String(found.explanation) : message(text)}`, ok ? "success" : "warning")
      return
    }
    loop.isOurs = true
    const parts = [{ type: "text" as const, text: found.text }]
    try {
      await client.session.promptAsync({ path: { id: session }, body: { agent: "perpetual", parts } })
    } catch {
      await end(session, "the next round could not be started")
    }
  }

  return {
    config: async (config: Config) => {
      config.command ??= {}
      for (const [name, command] of Object.entries(COMMANDS)) config.command[name] ??= { ...command, agent: "perpetual" }
      config.agent ??= {}
      const agent = (config.agent.perpetual ??= { ...AGENT })
      agent.color ??= COLOR
    },

    "chat.message": async ({ sessionID }, { parts }) => {
      const loop = loops.get(sessionID)
      if (loop?.isOurs) loop.isOurs = false
      else if (loop && parts.some((part) => part.type === "text" && !part.synthetic))
        await end(sessionID, "the person wrote something else")
      await refresh(sessionID)
    },

    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (!sessionID || system[0]?.startsWith("You are a title generator")) return
      if (!states.has(sessionID)) await refresh(sessionID)
      const state = states.get(sessionID)
      if (state) system.push(`Where this project's research stands, from \`perpetual brief\`:\n\n${state}`)
    },

    "command.execute.before": async ({ command, sessionID, arguments: words }, { parts }) => {
      if (command !== "auto") return end(sessionID, command === "stop" ? "the person stopped it" : `the person ran /${command}`)
      const said = await start(sessionID, rounds(words))
      const text = parts.find((part) => part.type === "text")
      if (text?.type === "text") text.text += `\n\n${said}`
    },

    event: async ({ event }) => {
      if (event.type === "session.error" && event.properties.sessionID)
        await end(event.properties.sessionID, "the session met an error, or was interrupted")
      if (event.type === "session.deleted") {
        states.delete(event.properties.info.id)
        await end(event.properties.info.id, "the session was deleted")
      }
      if (event.type !== "session.idle") return
      const loop = loops.get(event.properties.sessionID)
      if (loop) await next(event.properties.sessionID, loop)
      else await leave(event.properties.sessionID)
    },
  }
}

// The number right after /auto, or before the word rounds, as `perpetual` itself reads it.
function rounds(words: string): number {
  const first = words.match(/^[\s"'(]*(\d{1,9})(?![\w.]*\d|\w)/)?.[1]
  const named = first ?? words.match(/(?<![\w.+-])(\d{1,9}) (?:rounds?|turns?)\b/)?.[1]
  return named ? Math.min(Number.parseInt(named, 10), MOST_ROUNDS) : ROUNDS
}

function parsed(text: string): Document {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Document) : {}
  } catch {
    return {}
  }
}

// What an error document says, or that the program could not be asked.
function message(text: string): string {
  const found = parsed(text).error
  const said = typeof found === "object" && found !== null && "message" in found ? found.message : undefined
  return typeof said === "string" ? said : "the command `perpetual auto` gave no answer"
}
