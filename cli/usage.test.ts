/** Tests that wrong values and missing arguments have the same exit code in every command. */
import type { Command, Option } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion } from '../crds/index.ts'
import type { Run } from './arguments.ts'
import { clientCommands } from './index.ts'
import { processIo } from './io.ts'
import { type Cli, startCli } from './testing/cli.ts'

let cli: Cli
beforeAll(async () => {
  cli = await startCli()
  await cli.run('db create shop --allow-me --wait -q')
})
afterAll(() => cli?.close())

const run: Run = { io: processIo(), rest: [], exitCode: 0 }
const roots = await Promise.all(
  Object.entries(clientCommands).map(async ([name, [, load]]) => ({ name, command: (await load()).default(run) })),
)

type Leaf = { words: readonly string[]; command: Command }
const leavesOf = (words: readonly string[], command: Command): Leaf[] =>
  command.commands.length === 0
    ? [{ words, command }]
    : command.commands.flatMap(one => leavesOf([...words, one.name()], one))
const leaves = roots.flatMap(({ name, command }) => leavesOf([name], command))

/** Returns a value for each required argument. */
const required = ({ registeredArguments }: Command): string[] =>
  registeredArguments.filter(argument => argument.required).map(argument => argument.argChoices?.[0] ?? 'shop')

/** Whether the parser decides which values the option accepts. */
const isChecked = ({ argChoices, parseArg, long }: Option): boolean =>
  argChoices !== undefined || (parseArg !== undefined && long !== '--command')

const has = ({ options }: Command, flag: string): boolean => options.some(({ long }) => long === flag)

/** Returns the options that the command needs. */
const neededOptions = (command: Command): string[] => [
  ...(has(command, '--yes') ? ['--yes'] : []),
  ...(has(command, '--to') ? ['--backup', 'b'] : []),
  ...(has(command, '--csv') ? ['--command', 'x'] : []),
]

const wrong = leaves.flatMap(({ words, command }) => {
  const complete = [...words, ...required(command)]
  const all = command.registeredArguments.map(argument => argument.argChoices?.[0] ?? 'shop')
  return [
    [...complete, '--no-such-option'],
    [...words, ...all, 'one-more'],
    ...(required(command).length > 0 ? [words] : []),
    ...command.options.filter(isChecked).map(({ long }) => [...complete, `${long}=x`]),
    ...command.options.filter(option => option.required).map(({ long }) => [...complete, String(long)]),
    ...(has(command, '--profile') ? [[...complete, ...neededOptions(command), '--profile', 'none']] : []),
  ].map(line => [line.join(' '), line] as const)
})

test('every command is tested', () => {
  expect(leaves.length).toBeGreaterThan(30)
  expect(wrong.length).toBeGreaterThan(200)
  for (const line of ['logs --since=x', 'restore shop --to=x', 'branch create --at=x', 'tasks --lines=x'])
    expect(wrong.map(([shown]) => shown)).toContain(line)
})

test('a value that a parser refuses, and a missing or extra argument, are wrong usage in every command', async () => {
  const codes = await Promise.all(wrong.map(async ([shown, line]) => [shown, (await cli.run(line)).code]))
  expect(codes.filter(([, code]) => code !== 2)).toEqual([])
})

const future = '2999-01-01T00:00:00Z'

describe('a value that only the API can refuse is wrong usage, and the message names the option', () => {
  test.each([
    ['db create Shop!', '<name>: '],
    ['db create x --size none', '--size: '],
    ['db create x --region none', '--region: '],
    ['db create x --pg-version 99', '--pg-version: '],
    ['db create x --allow none', '--allow: '],
    [`db create x --display-name ${'x'.repeat(300)}`, '--display-name: '],
    [`branch create ${'x'.repeat(300)} -d shop`, '[name]: '],
    ['branch create x -d shop --expires 2020-01-01T00:00:00Z', '--expires: '],
    [`branch create x -d shop --at ${future}`, '--at: '],
    ['allow add none shop', '<cidr>: '],
    ['size set none shop', '<size>: '],
    ['metrics shop --interval none', '--interval: '],
    ['backup create shop --durable', '--durable: '],
    [`restore shop --to ${future} --yes`, '--to: '],
    ['services add mcp shop --allow none', '--allow: '],
    ['services add rest shop', '--config'],
  ])('%s', async (line, named) => {
    const { code, out, err } = await cli.run(line)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    const [name = ''] = line.split(' ')
    expect(err.split('\n')).toHaveLength(2)
    expect(err.startsWith(`espalier ${name}: ${named}`), err).toBe(true)
  })
})

test.each([
  [{ ESPALIER_API_URL: 'none' }, 'ESPALIER_API_URL must'],
  [{ ESPALIER_API_URL: '', ESPALIER_TOKEN: '', ESPALIER_API_PORT: 'none' }, 'ESPALIER_API_PORT must'],
  [{ ESPALIER_API_CA: '/none' }, 'ESPALIER_API_CA: cannot read'],
])('an invalid environment variable is wrong usage: %j', async (environment, message) => {
  expect(await cli.run('db list', { environment })).toMatchObject({ code: 2, err: expect.stringContaining(message) })
})

test('db create requires --region if the installation has several regions', async () => {
  await cli.api.cluster.create('Region', {
    apiVersion,
    kind: 'Region',
    metadata: { name: 'other' },
    spec: { domain: 'other.test', gateway: { host: '127.0.0.2', ports: { first: 15432, last: 15500 } } },
  })
  expect(await cli.run('db create x')).toMatchObject({
    code: 2,
    err: 'espalier db: --region is required, and must be one of local, other\n',
  })
})
