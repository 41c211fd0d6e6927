// The plugin's hooks, called as OpenCode calls them, with a stand-in for the command `perpetual` on the PATH.
import assert from "node:assert/strict"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { after, afterEach, beforeEach, test } from "node:test"
import type { Config, Hooks, PluginInput } from "@opencode-ai/plugin"
import { Perpetual } from "../src/perpetual.js"

type Call = { words: string[]; marks: string[]; input: string }
type Toast = { message: string; variant: string }

const folder = mkdtempSync(join(tmpdir(), "opencode-perpetual-"))
const place = (name: string): string => join(folder, name)
const before = { ...process.env }
let toasts: Toast[] = []
let sent: string[] = []
let failing = false

// Notes each call, and answers what the file of the call's first words holds; without one it fails.
const PROGRAM = `#!${process.execPath}
const fs = require("node:fs")
const words = process.argv.slice(2)
const marks = ["AGENT", "OPENCODE", "CLAUDECODE"].filter((name) => process.env[name])
const input = words[0] === "hook" ? fs.readFileSync(0, "utf8") : ""
fs.appendFileSync(${JSON.stringify(place("calls"))}, JSON.stringify({ words, marks, input }) + "\\n")
const name = ${JSON.stringify(folder)} + "/" + (words[0] === "auto" ? "auto-" + words[1] : words[0])
if (!fs.existsSync(name)) process.exit(2)
const text = fs.readFileSync(name, "utf8")
process.stdout.write(text)
process.exit(text.includes('"error"') ? 6 : 0)
`

const calls = (): Call[] =>
  existsSync(place("calls"))
    ? readFileSync(place("calls"), "utf8").trim().split("\n").map((line) => JSON.parse(line) as Call)
    : []
const named = (name: string): Call[] => calls().filter((call) => call.words.slice(0, 2).join(" ").startsWith(name))
const answers = (name: string, text: string | object): void =>
  writeFileSync(place(name), typeof text === "string" ? text : JSON.stringify(text))

async function hooks(): Promise<Required<Pick<Hooks, "event" | "config" | "chat.message" | "command.execute.before">> & Hooks> {
  const client = {
    tui: { showToast: async ({ body }: { body: Toast }) => toasts.push({ message: body.message, variant: body.variant }) },
    session: {
      promptAsync: async ({ body }: { body: { parts: { text: string }[] } }) => {
        if (failing) throw new Error("no")
        sent.push(body.parts[0]!.text)
      },
      messages: async () => ({
        data: [
          { info: { role: "user" }, parts: [{ type: "text", text: "a question" }] },
          { info: { role: "assistant" }, parts: [{ type: "tool" }, { type: "text", text: "e1 waits for you" }] },
        ],
      }),
    },
  }
  return (await Perpetual({ client, directory: folder } as unknown as PluginInput)) as never
}
type Made = Awaited<ReturnType<typeof hooks>>

const message = (made: Made, session: string, text: string, synthetic = false): Promise<void> =>
  made["chat.message"]({ sessionID: session }, { message: {} as never, parts: [{ type: "text", text, synthetic } as never] })
const system = async (made: Made, session: string, first = "You are a coding agent"): Promise<string[]> => {
  const output = { system: [first] }
  await made["experimental.chat.system.transform"]!({ sessionID: session, model: {} as never }, output)
  return output.system
}
const command = async (made: Made, session: string, name: string, words: string): Promise<string> => {
  const parts = [{ type: "text", text: "the command" }]
  await made["command.execute.before"]({ command: name, sessionID: session, arguments: words }, { parts: parts as never })
  return parts[0]!.text
}
const idle = (made: Made, session: string): Promise<void> =>
  made.event({ event: { type: "session.idle", properties: { sessionID: session } } as never })
const armed = async (words = "2"): Promise<Made> => {
  const made = await hooks()
  answers("auto-start", {})
  answers("auto-stop", {})
  await command(made, "s", "auto", words)
  await message(made, "s", "the command")
  return made
}

beforeEach(() => {
  toasts = []
  sent = []
  failing = false
  rmSync(place("calls"), { force: true })
  for (const name of ["brief", "auto-start", "auto-next", "auto-stop"]) rmSync(place(name), { force: true })
  writeFileSync(place("perpetual"), PROGRAM)
  chmodSync(place("perpetual"), 0o755)
  Object.assign(process.env, { PATH: `${folder}${delimiter}${before.PATH}`, AGENT: "1", OPENCODE: "1" })
  delete process.env.PERPETUAL_DISPATCH
  answers("brief", "# The state of the research (event 7)\nh1 is open\n")
})
afterEach(() => {
  for (const name of ["AGENT", "OPENCODE", "PERPETUAL_DISPATCH", "PATH"]) delete process.env[name]
  Object.assign(process.env, before)
})
after(() => rmSync(folder, { recursive: true, force: true }))

test("the state is read once a message, and stands in each request of the turn", async () => {
  const made = await hooks()
  await message(made, "s", "hello")
  const first = await system(made, "s")
  assert.deepEqual(first.length, 2)
  assert.match(first[1]!, /from `perpetual brief`:\n\n# The state of the research\nh1 is open$/)
  answers("brief", "another")
  assert.deepEqual(await system(made, "s"), first)
  assert.equal(named("brief").length, 1)
  await message(made, "s", "and now?")
  assert.match((await system(made, "s"))[1]!, /another$/)
})

test("a new event alone leaves the text as it is", async () => {
  const made = await hooks()
  await message(made, "s", "hello")
  const first = await system(made, "s")
  answers("brief", "# The state of the research (event 8)\nh1 is open\n")
  await message(made, "s", "again")
  assert.deepEqual(await system(made, "s"), first)
})

test("a brief that fails leaves the text as it is, and a first one nothing", async () => {
  const made = await hooks()
  rmSync(place("brief"))
  await message(made, "s", "hello")
  assert.equal((await system(made, "s")).length, 1)
  answers("brief", "known")
  await message(made, "s", "hello")
  rmSync(place("brief"))
  await message(made, "s", "hello")
  assert.match((await system(made, "s"))[1]!, /known$/)
})

test("titles are left alone", async () => {
  const made = await hooks()
  await message(made, "s", "hello")
  assert.equal((await system(made, "s", "You are a title generator.")).length, 1)
})

test("/auto arms the session and goes on as perpetual decides", async () => {
  const made = await armed('"2 rounds"')
  const [start] = named("auto start")
  assert.deepEqual(start?.words, ["auto", "start", "--session", "s", "--harness", "opencode", "--rounds", "2", "--pid",
    String(process.pid), "--json"]) // prettier-ignore
  assert.deepEqual(start?.marks, []) // the person has typed it
  answers("auto-next", { go_on: true, text: "Go on." })
  await idle(made, "s")
  assert.deepEqual(sent, ["Go on."])
  await message(made, "s", "Go on.") // its own
  answers("auto-next", { go_on: false, explanation: "2 of 2 further rounds made" })
  await idle(made, "s")
  assert.deepEqual(sent, ["Go on."])
  assert.deepEqual(toasts.at(-1), { message: "/auto has ended: 2 of 2 further rounds made", variant: "success" })
  await idle(made, "s")
  assert.equal(named("auto next").length, 2)
  assert.equal(named("auto stop").length, 0)
})

test("the agent and the person are shown why /auto is refused", async () => {
  const made = await hooks()
  answers("auto-start", { error: { message: "the daemon owns the loop" } })
  assert.match(await command(made, "s", "auto", ""), /\/auto is not in force: the daemon owns the loop\. Tell the person/)
  assert.deepEqual(toasts, [{ message: "/auto: the daemon owns the loop", variant: "warning" }])
  await idle(made, "s")
  assert.equal(named("auto next").length, 0)
})

test("an older perpetual, or none, refuses /auto and breaks nothing", async () => {
  const made = await hooks() // which knows no `auto`
  assert.match(await command(made, "s", "auto", ""), /not in force: the command `perpetual auto` gave no answer/)
  rmSync(place("perpetual"))
  process.env.PATH = folder
  assert.match(await command(made, "s", "auto", ""), /not in force/)
  await message(made, "s", "hello")
  await idle(made, "s")
  assert.deepEqual(sent, [])
})

for (const [what, deed, why] of [
  ["another message of the person", (made: Made) => message(made, "s", "what is h1?"), /something else/],
  ["/stop", (made: Made) => command(made, "s", "stop", ""), /stopped it/],
  ["another command", (made: Made) => command(made, "s", "catchup", ""), /\/catchup/],
  ["an error", (made: Made) => made.event({ event: { type: "session.error", properties: { sessionID: "s" } } as never }),
    /error/],
  ["its deletion", (made: Made) => made.event({ event: { type: "session.deleted", properties: { info: { id: "s" } } } as never }),
    /deleted/],
] as const) {
  test(`${what} ends it`, async () => {
    const made = await armed()
    answers("auto-next", { go_on: true, text: "Go on." })
    await deed(made)
    const [stop] = named("auto stop")
    assert.deepEqual(stop?.words.slice(0, 4), ["auto", "stop", "--session", "s"])
    assert.match(stop?.words.at(-1) ?? "", why)
    await idle(made, "s")
    assert.deepEqual(sent, [])
  })
}

test("a message that OpenCode writes itself ends nothing", async () => {
  const made = await armed()
  await message(made, "s", "continue after the compaction", true)
  answers("auto-next", { go_on: true, text: "Go on." })
  await idle(made, "s")
  assert.deepEqual(sent, ["Go on."])
})

test("a stop while perpetual decides is heeded", async () => {
  const made = await armed()
  answers("auto-next", { go_on: true, text: "Go on." })
  const asking = idle(made, "s")
  await command(made, "s", "stop", "")
  await asking
  assert.deepEqual(sent, [])
})

test("a round that cannot be started gives the loop back", async () => {
  const made = await armed()
  answers("auto-next", { go_on: true, text: "Go on." })
  failing = true
  await idle(made, "s")
  assert.equal(named("auto stop").length, 1)
})

for (const [words, rounds] of [["", 10], ["3", 3], ['"4 rounds"', 4], ["on h12", 10], ["lr 0.5 for 4", 10], ["lr 0.5, 4 rounds", 4], ["999", 50], ["0", 0]] as const) {
  test(`/auto ${words} is ${rounds} rounds`, async () => {
    await armed(words)
    assert.equal(named("auto start")[0]?.words[7], String(rounds))
  })
}

test("commands and agent fill what the project does not have", async () => {
  const made = await hooks()
  const empty: Config = {}
  await made.config(empty)
  assert.deepEqual(Object.keys(empty.command ?? {}), ["auto", "stop", "report", "catchup"])
  assert.equal(empty.agent?.perpetual?.color, "#a855f7")
  assert.ok(Object.values(empty.command ?? {}).every((one) => one.template.endsWith("The person added: $ARGUMENTS")))
  const own: Config = {
    command: { auto: { template: "own" } },
    agent: { perpetual: { prompt: "own", color: "#000000" }, other: {} },
  }
  await made.config(own)
  assert.equal(own.command?.auto?.template, "own")
  assert.deepEqual(own.agent?.perpetual, { prompt: "own", color: "#000000" })
})

test("it does nothing where the lab drives OpenCode", async () => {
  process.env.PERPETUAL_DISPATCH = "c-1"
  assert.deepEqual(await hooks(), {})
  assert.deepEqual(calls(), [])
})

test("a session that is not armed is handed over when it is idle", async () => {
  const made = await hooks()
  await idle(made, "s")
  const [call] = named("hook stop")
  assert.deepEqual(JSON.parse(call!.input), {
    harness: "opencode",
    session_id: "s",
    last_assistant_message: "\ne1 waits for you",
  })
})
