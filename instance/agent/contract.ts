/** What the agent and those who ask it agree on. */

/** Where the agent of a pod listens, by TLS. */
export const agentPort = 8432

/** Common names of the client certificates by which it knows who asks. Anybody may ask whether it lives. */
export const agentClients = { api: 'espalier-api', metrics: 'espalier-metrics' } as const
export type AgentClient = keyof typeof agentClients

/** How often it takes a sample, and for how long it keeps them. */
export const sampleEveryMs = 30_000
export const samplesKept = 240

/** The most entries of the log that one answer holds, and how long it may take. */
export const mostLogEntries = 1000
export const logAnswerMs = 3_000
