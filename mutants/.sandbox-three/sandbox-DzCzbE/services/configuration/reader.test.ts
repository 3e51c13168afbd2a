/** The configuration of a service that is none of ours: its own keys, its own syntax, its own names in the environment and the database. */
// @ts-nocheck

import { expect, test } from 'vitest'
import { key, optional } from './catalogue.ts'
import { describeSettings } from './describe.ts'
import { ConfigurationError } from './errors.ts'
import { readSettings, type Sources } from './reader.ts'
import type { ConfigurationForm } from './sources.ts'
import type { Binding } from './syntax.ts'
import * as values from './values.ts'

const catalogue = {
  greeting: key('tools.greeting', values.choice('short', 'long'), 'short', 'How to greet.', { inDatabase: true }),
  limit: optional('tools.limit', values.whole(1, 9), 'Most tools at once.', { aliases: ['tools.max'] }),
  token: optional('token', values.secret(), 'What to show.', { inFile: true, isSecret: true }),
  database: key('database', values.connection(), 'postgresql://', 'Where to read.'),
}

/** Nested JSON, of which a path is a key. */
function bindings(value: object, path = ''): Binding[] {
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'object' ? bindings(inner, `${path}${name}.`) : [{ key: path + name, value: inner, line: 1 }],
  )
}

const form: ConfigurationForm<typeof catalogue> = {
  catalogue,
  parse: text => (text === '' ? [] : bindings(JSON.parse(text))),
  environmentPrefix: 'TOOL_',
  databasePrefixes: ['tool.'],
  heedsDatabase: given => !given.has('limit'),
}

const read = (sources: Partial<Sources>) =>
  readSettings(form, { environment: {}, readFile: path => `content of ${path}\n`, ...sources })

test('without any source there are the defaults', () => {
  expect(read({}).settings).toEqual({ greeting: 'short', database: 'postgresql://' })
})

test('file, environment and database set keys by the names and in the syntax of the service', () => {
  const file = '{"tools": {"max": 3}, "token": "@/run/token", "database": "host=a"}'
  const environment = { TOOL_TOOLS_LIMIT: '7', TOOL_DATABASE: 'host=b', OTHER_TOKEN: 'x' }
  const settings = { greeting: 'short', limit: 7, token: 'content of /run/token', database: 'host=b' }
  expect(read({ file, environment }).settings).toEqual(settings)
  const database = { 'tool.tools_greeting': 'long', 'tool.database': 'host=c', 'tool.tools_limit': '1' }
  expect(read({ database }).settings).toEqual({ greeting: 'long', database: 'postgresql://' })
  expect(read({ database, environment }).settings).toMatchObject({ greeting: 'short', limit: 7 })
})

test('what breaks a rule is said with the key, the place and the rule, all at once', () => {
  const broken = () =>
    read({ file: '{"tools": {"limit": 10, "greting": "x"}}', environment: { TOOL_TOOLS_GREETING: 'x' } })
  expect(broken).toThrow(ConfigurationError)
  expect(broken).toThrow(
    [
      'tools.greting (file, line 1) is not a key; the nearest one is tools.greeting',
      'tools.greeting (environment, TOOL_TOOLS_GREETING) must be one of "short", "long"',
      'tools.limit (file, line 1) must be a whole number from 1 to 9',
    ].join('\n'),
  )
})

test("without an open prefix no key is anybody else's to name", () => {
  expect(read({ file: '{"app": {"settings": {"x": 1}}}' }).problems).toMatchObject([{ key: 'app.settings.x' }])
})

test('the service adds what concerns several keys, with the place', () => {
  const { problem } = read({ environment: { TOOL_TOOLS_LIMIT: '7' } })
  const source = { kind: 'environment', variable: 'TOOL_TOOLS_LIMIT' }
  expect(problem('limit', 'is too much')).toEqual({ key: 'tools.limit', source, rule: 'is too much' })
  expect(problem('token', 'is missing').source).toEqual({ kind: 'default' })
})

test('what is printed has every key and no secret', () => {
  const { settings } = read({ file: '{"token": "Hidden", "database": "postgresql://u:Hidden@h/d"}' })
  expect(describeSettings(catalogue, settings)).toBe(
    [
      'tools.greeting = "short"',
      'tools.limit = ""',
      'token = "********"',
      'database = "postgresql://u:********@h/d"',
      '',
    ].join('\n'),
  )
})
