/**
 * Runs the examples of docs/rest.md about requests and about features beyond PostgREST, on the tour's database. The
 * responses must equal the printed responses.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { parsePreferences } from './parse/preferences.ts'
import { plainOperators, quantifiableOperators, searchOperators } from './parse/types.ts'
import { jwtSecret, startService, type TestService, tokenOf } from './testing/service.ts'

const page = readFileSync(new URL('../../docs/rest.md', import.meta.url), 'utf8')
const [, setup = ''] = /<<'EOF'\n([\s\S]*?)\n {4}EOF/.exec(page) ?? []

/** SQL of the tour that must run before this section. */
const [, alteration = ''] = /-c '(ALTER TABLE [^']*)'/.exec(page) ?? []
const tour = `${setup}
  INSERT INTO api.books (title) VALUES ('Sketches'); DELETE FROM api.books WHERE title = 'Sketches';
  ${alteration}`

const sectionOf = (heading: string): string =>
  new RegExp(`^## ${heading}\\n[\\s\\S]*?(?=^## )`, 'm').exec(page)?.[0] ?? ''

/** Configuration lines that a section adds. */
const keysOf = (section: string) =>
  Object.fromEntries(
    [...section.matchAll(/^ {4}([a-z][a-z0-9-]*) = (.*)$/gm)].map(([, name = '', value = '']) => [
      name,
      JSON.parse(value) as string | number | boolean, // A value in the file's format. These values are also valid JSON.
    ]),
  )

type Example = { command: string; expected: string }

const examplesOf = (section: string): Example[] =>
  [...section.matchAll(/^```console\n([\s\S]*?)^```/gm)].flatMap(([, block = '']) =>
    block
      .replace(/\\\n\s*/g, '')
      .split(/^\$ /m)
      .slice(1)
      .map(text => {
        const lines = text.split('\n')
        // A command continues on the next line while a quote is open.
        const isOpen = (count: number) => lines.slice(0, count).join('\n').split("'").length % 2 === 0
        let count = 1
        while (isOpen(count) && count < lines.length) count++
        return { command: lines.slice(0, count).join('\n'), expected: lines.slice(count).join('\n').trimEnd() }
      }),
  )

let postgres: TestPostgres
let service: TestService
let token: string

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(tour)
  token = await tokenOf({ role: 'librarian' })
})
afterAll(() => postgres?.stop())

/** The words of a command after removing quotes and expanding variables. */
function words(command: string): string[] {
  return [...command.matchAll(/(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([^\s"']+))(?=\s|$)/g)].map(
    ([, double, single, bare]) =>
      single ??
      (double ?? bare ?? '')
        .replaceAll('$REST', '')
        .replaceAll('$TOKEN', token)
        .replace(/\\(["\\$])/g, '$1'),
  )
}

/** Acts like `tail -n 1 rest.log | jq`: returns these keys of the last line that has them all. */
async function lastLine(names: readonly string[]): Promise<string> {
  const lines = () => service.log.map(line => JSON.parse(line)).filter(line => names.every(name => name in line))
  await until(() => lines().length > 0)
  const last = lines().at(-1)
  return JSON.stringify(Object.fromEntries(names.map(name => [name, last[name]])))
}

/** Acts like `curl` with the options that the examples use. `| grep -i -e ^name` keeps these lines of the head. */
async function run(command: string): Promise<string> {
  const [, picked] = /^tail .* \| jq -c '\{(.*)\}'$/.exec(command) ?? []
  if (picked !== undefined) return lastLine(picked.split(', '))
  const [curl = '', grep] = command.split(' | ')
  const args = words(curl)
  const headers: Record<string, string> = {}
  let method: string | undefined
  let body: string | undefined
  let path = ''
  for (let index = 1; index < args.length; index++) {
    const word = args[index] ?? ''
    if (word === '-H') {
      const [, name = '', value = ''] = /^([^:]+): (.*)$/.exec(args[++index] ?? '') ?? []
      headers[name] = value
    } else if (word === '-X') method = args[++index]
    else if (word === '-d') body = args[++index]
    else if (!word.startsWith('-')) path = word
  }
  const sent = body === undefined ? {} : { body, method: 'POST' }
  const answer = await service.send(path, { headers, ...sent, ...(method === undefined ? {} : { method }) })
  if (grep === undefined) return answer.text.trimEnd()
  const head = [
    `HTTP/1.1 ${answer.status} ${answer.statusText}`,
    ...Object.entries(answer.headers).map(([name, value]) => `${name}: ${String(value)}`),
  ]
  const headerNames = [...grep.matchAll(/-e \^([\w-]+)/g)].map(([, name = '']) => name)
  return head.filter(line => headerNames.some(name => line.toLowerCase().startsWith(name))).join('\n')
}

describe.each([
  ['Requests', 'requests'],
  ['Beyond PostgREST', 'beyond'],
])('%s', (heading, database) => {
  const section = sectionOf(heading)
  const examples = examplesOf(section)
  beforeAll(async () => {
    await postgres.run(`CREATE DATABASE ${database} TEMPLATE postgres`, 'template1')
    const plain = { 'db-schemas': 'api', 'db-anon-role': 'web_anon', 'jwt-secret': jwtSecret, 'server-port': 0 }
    service = await startService(postgres.uri('authenticator', database), { ...plain, ...keysOf(section) })
  })
  afterAll(() => service?.stop())

  test('has examples', () => {
    expect(examples.length).toBeGreaterThan(8)
  })

  test.each(examples)('$command', async ({ command, expected }) => {
    const lines = (text: string) => text.replace(/^[\w-]+(?=: )/gm, name => name.toLowerCase())
    expect(lines(await run(command))).toBe(lines(expected))
  })
})

test('each feature beyond PostgREST has an example', () => {
  const parts = sectionOf('Beyond PostgREST').split(/^### /m).slice(1)
  expect(parts.length).toBeGreaterThan(0)
  expect(parts.filter(part => !part.includes('```')).map(part => part.split('\n')[0])).toEqual([])
})

/** The cells of a table in the section about requests, by header, without backticks. */
function tableOf(header: string): string[][] {
  const [, after = ''] = sectionOf('Requests').split(`| ${header} |\n`)
  const [table = ''] = after.split('\n\n')
  return table
    .split('\n')
    .slice(1)
    .map(line => line.split(' | ').map(cell => cell.replace(/^\| | \|$/g, '').replaceAll('`', '')))
}

test("the table of operators equals the parser's operators", () => {
  const listed = tableOf('operator | SQL | example').flatMap(([names = '']) => names.split(', '))
  expect(listed.sort()).toEqual(
    [...quantifiableOperators, ...plainOperators, ...searchOperators, 'in', 'is', 'isdistinct'].sort(),
  )
})

test("the table of preferences equals the parser's preferences", () => {
  const rows = tableOf('preference | values | meaning')
  const { invalid: _, ...known } = parsePreferences(undefined, 'any')
  const names = Object.keys(known).map(name => name.replace('maxAffected', 'max-affected'))
  expect(rows.map(([preference]) => preference).sort()).toEqual(names.sort())
  const values = rows.flatMap(([preference, list = '']) =>
    list.split(', ').map(value => `${preference}=${value.replace('a number', '1')}`),
  )
  expect(parsePreferences(values.join(','), 'any').invalid).toEqual([])
})
