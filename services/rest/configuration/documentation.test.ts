/** docs/rest.md lists every key with its current description. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { keysOf } from '../../configuration/declaration.ts'
import { keys } from './keys.ts'

const page = readFileSync(new URL('../../../docs/rest.md', import.meta.url), 'utf8')
const header = '| key | default | environment | in the database | meaning |'

/** The cells of the table's rows, without backticks. */
function rows(): string[][] {
  const [, after = ''] = page.split(`${header}\n|---|---|---|---|---|\n`)
  const [table = ''] = after.split('\n\n')
  return table.split('\n').map(line =>
    line
      .split('|')
      .slice(1, 6)
      .map(cell => cell.trim()),
  )
}

const code = (text: string) => `\`${text}\``

test('the table of docs/rest.md equals the table of keys', () => {
  const expected = keysOf(keys).map(({ name, key: { default: initial, extras } }) => {
    const { inDatabase, aliases = [], meaning } = extras
    const file = extras.file === '@' ? ' `@path` reads it from a file.' : ''
    const older = aliases.length === 0 ? '' : ` Older name: ${aliases.map(code).join(', ')}.`
    return [
      code(name),
      initial === undefined ? '' : code(String(initial)),
      code(`ESPALIER_REST_${name.replaceAll('-', '_').toUpperCase()}`),
      inDatabase ? 'yes' : '',
      `${meaning}${file}${older}`,
    ]
  })
  expect(rows()).toEqual(expected)
})
