/** Levels of the log messages that a server sends to its client (names of RFC 5424), least severe first. */
export const logLevels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const
export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (level: unknown): level is LogLevel =>
  typeof level === 'string' && (logLevels as readonly string[]).includes(level)
