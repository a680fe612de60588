export default function (pi) {
  // Rethread drives this agent itself, and records it already.
  if (process.env.RETHREAD_PARENT_SESSION) return
  const recorder = new Recorder()
  const about = (ctx) => ({
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile(),
    cwd: ctx.cwd,
  })
  pi.on("before_agent_start", async (event, ctx) => {
    const content = await recorder.ask({ ...about(ctx), prompt: event.prompt })
    if (content) return { message: { customType: "rethread", content, display: false } }
  })
  pi.on("message_update", (event, ctx) => {
    const { type, delta } = event.assistantMessageEvent ?? {}
    const session = ctx.sessionManager.getSessionId()
    if (type === "text_delta") recorder.say(session, "text", delta)
    if (type === "thinking_delta") recorder.say(session, "thought", delta)
  })
  pi.on("session_before_compact", (event, ctx) => recorder.tell("compact", about(ctx)))
  pi.on("agent_end", (event, ctx) => recorder.tell("stop", about(ctx)))
  pi.on("session_shutdown", (event, ctx) => recorder.tell("end", about(ctx)))
}
