/** The loop that updates HAProxy's maps, with a fake HAProxy whose answers the test sets. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { noHosts } from '../http/table.ts'
import type { RouteTable } from '../table.ts'
import { until } from '../testing/sockets.ts'
import { createHaproxyPlane } from './data-plane.ts'
import { pathsIn } from './paths.ts'

/** Answers to commands by their prefix; the longest matching prefix is used. */
type Answers = Record<string, string>

async function scripted(answers: Answers) {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-plane-'))
  const paths = pathsIn(directory)
  const commands: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    let rest = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      rest += text
      for (;;) {
        const end = rest.split('\n', 1)[0]?.endsWith('<<') ? rest.indexOf('\n\n') + 1 : rest.indexOf('\n')
        if (end <= 0) return
        const command = rest.slice(0, end).trimEnd()
        rest = rest.slice(end + 1)
        if (command !== 'prompt') commands.push(command.replaceAll(`${directory}/`, ''))
        const begins = Object.keys(answers).filter(key => command.replaceAll(`${directory}/`, '').startsWith(key))
        const key = begins.sort((left, right) => right.length - left.length)[0]
        socket.write(
          `${(key && answers[key]) ?? (command.startsWith('prepare') ? 'New version created: 1\n' : '')}\n> `,
        )
      }
    })
  }).listen(paths.runtime)
  await once(server, 'listening')
  let recovered = 0
  let resolvable = true
  const plane = createHaproxyPlane({
    paths,
    ports: { first: 1, last: 100 },
    addressOf: ({ service }) => (service === 'absent' ? undefined : '10.96.0.1:5432'),
    resolvable: () => resolvable,
    https: false,
    limits: { answerMs: 300, answerBytes: 10_000 },
    onRecovered: () => recovered++,
    logger: pino({ level: 'silent' }),
  })
  onTestFinished(async () => {
    await plane.stop()
    for (const socket of sockets) socket.destroy()
    server.close()
    await rm(directory, { recursive: true })
  })
  return {
    plane,
    commands,
    recovered: () => recovered,
    isConnected: () => sockets.size > 0,
    drop: () => {
      for (const socket of sockets) socket.destroy()
    },
    setResolvable: (yes: boolean) => {
      resolvable = yes
      plane.retarget()
    },
  }
}

const table = (...ports: number[]): RouteTable =>
  new Map(
    ports.map(port => [
      port,
      {
        label: 'x',
        target: { namespace: 'n', service: 's', port: 5432 },
        rules: ['10.0.0.0/8'],
        ranges: new Uint32Array(),
      },
    ]),
  )
const pushOf = (...lines: string[]) => ['prepare map ports.map', ...lines, 'commit map @1 allow.map']

test('before it has a table, the plane writes neither maps nor a deadline', async () => {
  const { plane, commands } = await scripted({})
  await plane.applied()
  expect(commands).toEqual(['show info'])
  expect(plane.problem()).toBe(undefined)
})

test('the first push sends everything in transactions, the deadline last; later pushes send only changes', async () => {
  const { plane, commands, recovered } = await scripted({})
  plane.put(table(7), noHosts)
  plane.admitUntil(1_700_000_000_999)
  await plane.applied()
  const first = commands.filter(command => command !== 'show info')
  expect(first).toEqual([
    ...pushOf(
      'add map @1 ports.map <<\n7 1',
      'commit map @1 ports.map',
      'prepare map allow.map',
      'add map @1 allow.map <<\nfd00::7:10.0.0.0/104 10.96.0.1:5432',
    ),
    'prepare map state.map',
    'add map @1 state.map <<\ndeadline 1700000000',
    'commit map @1 state.map',
  ])
  expect(recovered()).toBe(1)
  commands.length = 0
  plane.admitUntil(1_700_000_010_000)
  await plane.applied()
  expect(commands).toEqual(['set map state.map deadline 1700000010'])
})

test('after a lost connection everything is pushed again', async () => {
  const { plane, commands, drop, recovered } = await scripted({})
  plane.put(table(7), noHosts)
  plane.admitUntil(1_700_000_000_000)
  await plane.applied()
  commands.length = 0
  drop()
  await until('the plane has pushed everything again', () => recovered() === 2)
  expect(commands.filter(command => command.startsWith('commit'))).toEqual([
    'commit map @1 ports.map',
    'commit map @1 allow.map',
    'commit map @1 state.map',
  ])
})

test('an unexpected answer counts as a failure, and everything is pushed again until it succeeds', async () => {
  const answers: Answers = { 'add map allow.map': 'Out of memory.\n' }
  const { plane, commands } = await scripted(answers)
  plane.put(table(7), noHosts)
  await plane.applied()
  plane.put(table(7, 8), noHosts)
  await expect(plane.applied()).rejects.toThrow('not applied: unexpected answer from HAProxy: Out of memory.')
  expect(plane.problem()).toContain('Out of memory')
  // A full push uses another command than a push of changes.
  await until('the plane reports no problem', () => plane.problem() === undefined)
  expect(commands.filter(command => command === 'prepare map allow.map')).toHaveLength(2)
})

test('if a map cannot be prepared, the deadline is not set', async () => {
  const { plane, commands } = await scripted({ 'prepare map allow.map': 'Unknown map identifier.\n' })
  plane.put(table(7), noHosts)
  plane.admitUntil(1_700_000_000_000)
  await expect(plane.applied()).rejects.toThrow('Unknown map identifier')
  expect(commands.some(command => command.includes('state.map'))).toBe(false)
})

test('nothing is pushed while targets are unknown', async () => {
  const { plane, commands, isConnected, setResolvable } = await scripted({})
  setResolvable(false)
  await until('the plane is connected', isConnected)
  plane.put(table(7), noHosts)
  const done = plane.applied()
  await new Promise(resolve => setTimeout(resolve, 100))
  expect(commands.filter(command => command.startsWith('prepare'))).toEqual([])
  setResolvable(true)
  await done
  expect(commands).toContain('commit map @1 allow.map')
})

test('after close, the plane never sets a later deadline', async () => {
  const { plane, commands } = await scripted({})
  plane.put(table(7), noHosts)
  plane.admitUntil(1_700_000_000_000)
  await plane.applied()
  expect(await plane.close()).toBe(true)
  plane.admitUntil(1_800_000_000_000)
  plane.put(table(7, 8), noHosts)
  await plane.applied()
  expect(commands.filter(command => command.startsWith('set map state'))).toEqual(['set map state.map deadline 0'])
})

test('close resolves to false if HAProxy does not apply the deadline', async () => {
  const { plane, drop } = await scripted({ 'set map': 'no\n', 'prepare map': 'no\n' })
  plane.put(table(7), noHosts)
  drop()
  expect(await plane.close()).toBe(false)
})

test('ports outside the range are reported', async () => {
  const { plane } = await scripted({})
  plane.put(table(7, 101, 9_000, 8), noHosts)
  expect(await plane.applied()).toEqual({ refusedPorts: [101, 9_000] })
})
