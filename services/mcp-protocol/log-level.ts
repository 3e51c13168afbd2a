/** Levels of messages that a server logs to its client, as RFC 5424 names them, from the least severe on. */
export const logLevels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const
export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (level: unknown): level is LogLevel =>
  typeof level === 'string' && (logLevels as readonly string[]).includes(level)
