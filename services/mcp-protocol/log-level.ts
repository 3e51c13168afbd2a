/** Levels of the messages that a server logs to its client (RFC 5424 names), least severe first. */
export const logLevels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const
export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (level: unknown): level is LogLevel =>
  typeof level === 'string' && (logLevels as readonly string[]).includes(level)
