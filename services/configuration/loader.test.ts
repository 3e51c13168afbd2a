/** The configuration of a fictional service: its own keys, syntax, and names in the environment and the database. */
import { expect, test } from 'vitest'
import { key, List, optional, required, type Sources } from './declaration.ts'
import { describeSettings } from './describe.ts'
import { ConfigurationError } from './errors.ts'
import { load } from './loader.ts'
import type { Form } from './sources.ts'
import * as values from './values.ts'

const declaration = {
  tools: {
    greeting: key(values.choice('short', 'long'), 'short', 'How to greet.', { inDatabase: true }),
    limit: optional(values.integer(1, 9), 'Most tools at once.', { aliases: ['max'] }),
  },
  token: optional(values.secret(), 'What to show.', { file: '@', isSecret: true }),
  database: key(values.connection(), 'postgresql://', 'Where to read.'),
}

const form: Form = {
  parse: ({ text }) => ({
    root: text === '' ? {} : JSON.parse(text),
    sourceOf: () => ({ kind: 'file', line: 1 }),
    problems: [],
  }),
  environmentPrefix: 'TOOL_',
  databasePrefixes: ['tool.'],
  emptyUnsets: true,
}

const read = ({ text = '', ...sources }: Partial<Sources> & { text?: string }) =>
  load(declaration, form, { file: { text }, environment: {}, readFile: path => `content of ${path}\n`, ...sources })

test('every key has its default if no source sets it', () => {
  expect(read({}).settings).toEqual({ tools: { greeting: 'short', limit: undefined }, database: 'postgresql://' })
})

test("file, environment and database set keys by the service's names and in its syntax", () => {
  const text = '{"tools": {"max": 3}, "token": "@/run/token", "database": "host=a"}'
  const environment = { TOOL_TOOLS_LIMIT: '7', TOOL_DATABASE: 'host=b', OTHER_TOKEN: 'x' }
  const tools = { greeting: 'short', limit: 7 }
  expect(read({ text, environment }).settings).toEqual({
    tools,
    token: 'content of /run/token',
    database: 'host=b',
  })
  const database = { 'tool.tools_greeting': 'long', 'tool.database': 'host=c', 'tool.tools_limit': '1' }
  expect(read({ database }).settings).toEqual({ tools: { greeting: 'long' }, database: 'postgresql://' })
})

test('all problems are reported together, with key, source and rule', () => {
  const broken = () =>
    read({
      text: '{"tools": {"limit": 10, "greting": "x"}}',
      environment: { TOOL_TOOLS_GREETING: 'x' },
    }).check()
  expect(broken).toThrow(ConfigurationError)
  expect(broken).toThrow(
    [
      'tools.greting (file, line 1) is not a key; the nearest one is tools.greeting',
      'tools.greeting (environment, TOOL_TOOLS_GREETING) must be one of "short", "long"',
      'tools.limit (file, line 1) must be a whole number from 1 to 9',
    ].join('\n'),
  )
})

test("an error about an unknown table lists its keys, and an error about an empty table has the table's name", () => {
  expect(read({ text: '{"app": {"settings": {"x": 1}}, "tool": {}}' }).problems).toMatchObject([
    { key: 'app.settings.x', rule: 'is not a key' },
    { key: 'tool', rule: 'is not a key; the nearest one is tools' },
  ])
  expect(read({ text: '{"tools": 5}' }).problems).toMatchObject([{ key: 'tools', rule: 'must be a table of keys' }])
})

test('only the first twenty unknown keys get a suggestion', () => {
  const text = JSON.stringify({ tools: Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`limit${at}`, 1])) })
  expect(read({ text }).problems.filter(({ rule }) => rule.includes('the nearest'))).toHaveLength(20)
  expect(read({ text }).problems).toHaveLength(30)
})

test('the service adds problems that concern several keys, with their source', () => {
  const { refuse, problems } = read({ environment: { TOOL_TOOLS_LIMIT: '7' } })
  refuse('tools.limit', 'is too much')
  refuse('token', 'is missing')
  expect(problems).toEqual([
    { key: 'tools.limit', source: { kind: 'environment', variable: 'TOOL_TOOLS_LIMIT' }, rule: 'is too much' },
    { key: 'token', source: { kind: 'default' }, rule: 'is missing' },
  ])
})

test('a missing or wrong required key is reported together with all other problems', () => {
  const keys = { name: required(values.name()), size: key(values.integer(1, 9), 1) }
  const loading = (text: string) => () => load(keys, form, { file: { text }, environment: {}, readFile: () => '' })
  expect(loading('{"size": 0}')).toThrow(
    /^name \(default\) must be given\nsize \(file, line 1\) must be a whole number from 1 to 9$/,
  )
  expect(loading('{"name": "\\u0000"}')).toThrow(/^name \(file, line 1\) must be a name/)
  expect(loading('{"name": "a"}')().settings).toEqual({ name: 'a', size: 1 })
})

test('a printed configuration has every key and no secret', () => {
  const { settings } = read({ text: '{"token": "Hidden", "database": "postgresql://u:Hidden@h/d"}' })
  expect(describeSettings(declaration, settings)).toBe(
    [
      'tools.greeting = "short"',
      'tools.limit = ""',
      'token = "********"',
      'database = "postgresql://u:********@h/d"',
      '',
    ].join('\n'),
  )
})

test('lists can nest, a name that ends with _ is a prefix, and a second key can name a file with the secret', () => {
  const table = {
    name: required(values.name()),
    filters: key(
      values.entries('must be words', text => text !== 'x'),
      '',
    ),
  }
  const keys = {
    pipelines: new List(
      () => ({
        provider_: { api_key: optional(values.secret(), { file: '_file' }) },
        tables: new List(() => table, 2),
      }),
      2,
    ),
    size: key(values.integer(1, 9), 1, { flag: 'size', fallbacks: ['SIZE'] }),
  }
  const loading = (pipelines: unknown, more: Partial<Sources> = {}) =>
    load(keys, form, {
      file: { text: JSON.stringify({ pipelines }) },
      environment: {},
      readFile: path => `of ${path}`,
      ...more,
    })
  const pipeline = {
    provider_api_key_file: '/key',
    tables: [
      { name: 'a', filters: ['b,c', 1] },
      { name: 'd', filters: 'e, f' },
    ],
  }
  expect(loading([pipeline]).settings.pipelines).toEqual([
    {
      provider: { apiKey: 'of /key' },
      tables: [
        { name: 'a', filters: ['b,c', '1'] },
        { name: 'd', filters: ['e', 'f'] },
      ],
    },
  ])
  expect(
    loading([{ provider_api_kye: 'x', provider_api_key: 'a', provider_api_key_file: 'b' }, 5]).problems,
  ).toMatchObject([
    { key: 'pipelines[0].provider_api_kye', rule: 'is not a key; the nearest one is pipelines[0].provider_api_key' },
    {
      key: 'pipelines[0].provider_api_key_file',
      rule: 'must not be given together with pipelines[0].provider_api_key',
    },
    { key: 'pipelines[1]', rule: 'must be a table of keys' },
  ])
  expect(loading([{}, {}, {}]).problems).toMatchObject([{ key: 'pipelines', rule: 'must have at most 2 entries' }])
  expect(() => loading([{ tables: [{ filters: ['x'] }] }])).toThrow(
    /^pipelines\[0\]\.tables\[0\]\.name \(default\) must be given\npipelines\[0\]\.tables\[0\]\.filters .* must be words$/,
  )
  const environment = { SIZE: '2' }
  expect(loading([], { environment }).settings.size).toBe(2)
  expect(loading([], { environment: { SIZE: '2', TOOL_SIZE: '3' } }).settings.size).toBe(3)
  expect(loading([], { environment, flags: new Map([['size', '4']]) }).settings.size).toBe(4)
})
