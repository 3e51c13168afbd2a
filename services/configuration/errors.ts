/** Configuration errors with key, source and rule. They never contain the value, which may be a secret. */

/** The source of a value. */
export type Source =
  | { kind: 'default' }
  | { kind: 'file'; line: number; path?: string }
  | { kind: 'environment'; variable: string }
  | { kind: 'database'; setting: string }
  | { kind: 'flag'; flag: string }

export type Problem = { key: string; source: Source; rule: string }

function describeSource(source: Source): string {
  switch (source.kind) {
    case 'default':
      return 'default'
    case 'file':
      return source.path === undefined ? `file, line ${source.line}` : `${source.path}, line ${source.line}`
    case 'environment':
      return `environment, ${source.variable}`
    case 'database':
      return `database, ${source.setting}`
    case 'flag':
      return `command line, -${source.flag}`
  }
}

/** Reports all values that break their rules. */
export class ConfigurationError extends Error {
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ key, source, rule }) => `${key} (${describeSource(source)}) ${rule}`).join('\n'))
    this.name = 'ConfigurationError'
    this.problems = problems
  }
}

/** Reports a file with invalid syntax. Line and column start at 1. */
export class ConfigurationSyntaxError extends Error {
  readonly line: number
  readonly column: number

  constructor(line: number, column: number, rule: string) {
    super(`configuration file, line ${line}, column ${column}: ${rule}`)
    this.name = 'ConfigurationSyntaxError'
    this.line = line
    this.column = column
  }
}
