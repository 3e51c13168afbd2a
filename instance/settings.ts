/** Text of postgresql.conf (PostgreSQL manual, "Parameter Interaction via the Configuration File"). */

const escapes: Record<string, string> = {
  "'": "''",
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
}

/**
 * A value in single quotes, with any content.
 * @throws RangeError for a NUL, which no setting can contain
 */
export function quoteSetting(value: string): string {
  if (value.includes('\0')) throw new RangeError('a setting cannot contain a NUL character')
  return `'${value.replaceAll(/['\\\b\f\n\r]/g, character => escapes[character] ?? character)}'`
}

/** Lines `name = 'value'`, in the given order. @throws RangeError for an invalid name, or a NUL */
export function renderSettings(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => {
      if (!/^[a-z_][a-z0-9_.]*$/i.test(name)) throw new RangeError(`${JSON.stringify(name)} is not a setting's name`)
      return `${name} = ${quoteSetting(value)}\n`
    })
    .join('')
}
