/** Shared by the agent and its clients. */

/** The TLS port of a pod's agent. */
export const agentPort = 8432

/** Common names of the client certificates. For the liveness check, a client needs no certificate. */
export const agentClients = { api: 'espalier-api', metrics: 'espalier-metrics', operator: 'espalier-operator' } as const
export type AgentClient = keyof typeof agentClients

export const sampleEveryMs = 30_000
/** The samples of two hours. */
export const retainedSamples = 240

/** The maximum number of log entries in one response, and the time limit of the response. */
export const mostLogEntries = 1000
export const logAnswerMs = 3_000
