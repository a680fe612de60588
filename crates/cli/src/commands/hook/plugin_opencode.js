export const Rethread = async ({ directory }) => {
  // Rethread drives this agent itself, and records it already.
  if (process.env.RETHREAD_PARENT_SESSION) return {}
  const recorder = new Recorder()
  const contexts = new Map()
  const children = new Set()
  const kinds = new Map()
  return {
    event: async ({ event }) => {
      const about = event?.properties ?? {}
      if (event?.type === "session.created" && about.info?.parentID) children.add(about.info.id)
      if (event?.type === "message.part.updated") kinds.set(about.part?.id, about.part?.type)
      if (children.has(about.sessionID)) return
      if (event?.type === "message.part.delta" && about.field !== "input") {
        const kind = kinds.get(about.partID) === "reasoning" ? "thought" : "text"
        recorder.say(about.sessionID, kind, about.delta)
      }
      if (event?.type === "session.idle") recorder.tell("stop", { session_id: about.sessionID, cwd: directory })
    },
    "chat.message": async (input, output) => {
      if (children.has(input.sessionID)) return
      const said = (output.parts ?? []).filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      const prompt_id = input.messageID ?? output.message?.id
      const context = await recorder.ask({ session_id: input.sessionID, cwd: directory, prompt, prompt_id })
      if (context) contexts.set(input.sessionID, context)
    },
    "tool.execute.after": async (input) => {
      if (!children.has(input.sessionID)) recorder.flush()
    },
    "experimental.session.compacting": async (input) => {
      recorder.tell("compact", { session_id: input.sessionID, cwd: directory })
    },
    "experimental.chat.system.transform": async (input, output) => {
      const context = contexts.get(input?.sessionID)
      if (context) output.system.push(context)
    },
  }
}
