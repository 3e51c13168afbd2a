/**
 * Measures WAL that clients send to `espalier archive` with mutual TLS. A busy machine hardly changes processor time.
 * - Segments, four at a time. The baseline is a copy of the same files. With a bucket, a second baseline compresses the
 *   segments and writes them to the bucket without the archive.
 * - Small pieces of many idle databases, each with a separate certificate and connection.
 * - One minute in which each of these databases sends one piece.
 *
 * Variables:
 * - ESPALIER_BENCH_S3: `versitygw` or `gofakes3`, for a bucket instead of a directory
 * - ESPALIER_BENCH_SEGMENTS: the number of segments (default: 100; 0 omits them)
 * - ESPALIER_BENCH_RANDOM: the bytes of each 8,192 bytes that cannot be compressed (default: 4096)
 * - ESPALIER_BENCH_DATABASES: the number of databases (default: 1000; 0 omits them)
 * - ESPALIER_BENCH_PLAIN=1: sends segments as agents of earlier versions do
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identityOf } from '../archive/names.ts'
import { openS3Store } from '../archive/store/s3.ts'
import { gofakes3, type S3Server, startS3Server, versitygw } from '../archive/testing/s3-servers.ts'
import { pauseMs as backOffMs } from '../instance/archive/client.ts'
import { compressed } from '../instance/archive/compression.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { freePort } from '../operator/postgres/testing/postgres.ts'
import { createIds } from '../values/id.ts'
import { against, percentile, print } from './statistics.ts'

const segments = Number(process.env.ESPALIER_BENCH_SEGMENTS ?? 100)
const databases = Number(process.env.ESPALIER_BENCH_DATABASES ?? 1000)
/** By default, half of each page is compressible, as in the WAL of an ordinary load. */
const randomBytesOfPage = Number(process.env.ESPALIER_BENCH_RANDOM ?? 4096)
const isPlain = process.env.ESPALIER_BENCH_PLAIN === '1'
const concurrent = 4
/** The baseline copies at most this number of segments, because a copy needs the same disk space again. */
const copied = Math.min(segments, 100)
/** The pause between two pieces of an almost idle database. */
const pauseMs = 60_000
const MiB = 2 ** 20
const root = mkdtempSync(join(process.env.ESPALIER_BENCH_DIRECTORY ?? tmpdir(), 'espalier-bench-archive-wal-'))
const authority = createAuthority()
const newId = createIds(Date.now)
const file = (name: string, text: string): string => {
  writeFileSync(join(root, name), text)
  return join(root, name)
}

async function startStore(): Promise<{ flags: string[]; env: NodeJS.ProcessEnv; server?: S3Server }> {
  const wanted = [versitygw, gofakes3].find(({ name }) => name === process.env.ESPALIER_BENCH_S3)
  if (wanted === undefined) return { flags: ['--store', `file://${join(root, 'store')}`], env: {} }
  const server = await startS3Server(wanted)
  const { bucket, prefix, endpoint = '', region, credentials } = server.settings
  const where = ['--s3-endpoint', endpoint, '--s3-region', region, '--s3-path-style']
  const env = { AWS_ACCESS_KEY_ID: credentials?.accessKeyId, AWS_SECRET_ACCESS_KEY: credentials?.secretAccessKey }
  return { flags: ['--store', `s3://${bucket}/${prefix}`, ...where], env, server }
}

async function startArchive(port: number, flags: string[], env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  const keys = ['--key-file', file('keys', randomBytes(32).toString('base64'))]
  const tls = ['--certificate', file('crt', own.cert), '--key', file('key', own.key)]
  const clients = ['--client-authority', file('ca', authority.cert)]
  const args = ['bin/espalier.mjs', 'archive', ...flags, ...keys, ...tls, ...clients, '--listen', `127.0.0.1:${port}`]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  await once(child.stdout, 'data')
  child.stdout.resume()
  return child
}

/** Returns the processor time (user and system) in ms. The kernel counts hundredths of a second. */
function processorMs({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}
const memoryMiB = ({ pid }: ChildProcess, of: 'VmHWM' | 'VmRSS'): string =>
  (Number(new RegExp(`${of}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024).toFixed(0)
const peakMiB = (child: ChildProcess): string => memoryMiB(child, 'VmHWM')
const residentMiB = (child: ChildProcess): string => memoryMiB(child, 'VmRSS')

/** Runs `work` for each number, `atOnce` at a time. @returns the total duration, in seconds */
async function each(count: number, atOnce: number, work: (number: number) => Promise<void>): Promise<number> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++)
  }
  const began = performance.now()
  await Promise.all(Array.from({ length: atOnce }, worker))
  return (performance.now() - began) / 1000
}

type Client = { agent: Agent; prefix: string }
function clientOf(sockets: number): Client {
  const incarnation = { databaseId: newId(), number: 1 }
  const certificate = issueClientCertificate(authority, { commonName: 'bench', uris: [identityOf(incarnation)] })
  const agent = new Agent({ keepAlive: true, maxSockets: sockets, ca: authority.cert, ...certificate })
  return { agent, prefix: `/v1/${incarnation.databaseId}/1` }
}

const digestOf = (bytes: Buffer): string => `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0')

async function put(port: number, client: Client, name: string, bytes: Buffer, digest: string) {
  const status = await tryToPut(port, client, name, bytes, digest)
  if (status !== 201) throw new Error(`the archive answered ${status}`)
}

async function tryToPut(
  port: number,
  { agent, prefix }: Client,
  name: string,
  bytes: Buffer,
  digest: string,
): Promise<number> {
  const headers = { 'content-digest': digest, 'content-length': bytes.length }
  const sending = request({ agent, host: '127.0.0.1', port, method: 'PUT', path: `${prefix}/${name}`, headers })
  sending.end(bytes)
  const [response] = await once(sending, 'response')
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

/** Retries as an agent does if the archive is busy or closes the connection. @returns the number of failed attempts */
async function putPatiently(port: number, client: Client, name: string, bytes: Buffer, digest: string) {
  for (let failed = 0; ; failed++) {
    // 200 means that an earlier attempt stored the piece, but its response was lost.
    if ((await tryToPut(port, client, name, bytes, digest).catch(() => 503)) < 300) return failed
    await sleep(backOffMs(failed + 1))
  }
}

/** Does the work of an agent: digest, compression and request. */
async function putCompressed(port: number, { agent, prefix }: Client, name: string, bytes: Buffer) {
  const digest = digestOf(bytes)
  const headers = { 'content-encoding': 'zstd', 'espalier-length': bytes.length, 'unencoded-digest': digest }
  const sending = request({ agent, host: '127.0.0.1', port, method: 'PUT', path: `${prefix}/${name}`, headers })
  const answered = once(sending, 'response')
  for await (const chunk of compressed(slices(bytes))) if (!sending.write(chunk)) await once(sending, 'drain')
  sending.end()
  const [response] = await answered
  response.resume()
  if (response.statusCode !== 201) throw new Error(`the archive answered ${response.statusCode}`)
  await once(response, 'end')
}

async function* slices(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 128 * 1024) yield bytes.subarray(at, at + 128 * 1024)
}

async function measureSegments(port: number, archive: ChildProcess, s3: S3Server | undefined): Promise<void> {
  const bytes = Buffer.alloc(16 * MiB)
  for (let at = 0; at < bytes.length; at += 8192) randomBytes(randomBytesOfPage).copy(bytes, at)
  const [client, digest, before] = [clientOf(concurrent), digestOf(bytes), processorMs(archive)]
  const name = (number: number) => `wal/${hex(1)}${hex(0)}${hex(number + 1)}`
  const hundreds: { seconds: number; memory: string }[] = []
  let [done, since] = [0, performance.now()]
  const ours = await each(segments, concurrent, async number => {
    if (isPlain) await put(port, client, name(number), bytes, digest)
    else await putCompressed(port, client, name(number), bytes)
    if (++done % 100 > 0) return
    hundreds.push({ seconds: (performance.now() - since) / 1000, memory: residentMiB(archive) })
    since = performance.now()
  })
  client.agent.destroy()
  const megabytes = (segments * bytes.length) / 1e6
  const ms = (processorMs(archive) - before) / megabytes
  writeFileSync(join(root, 'segment'), bytes)
  mkdirSync(join(root, 'copied'))
  const began = performance.now()
  for (let number = 0; number < copied; number++) cpSync(join(root, 'segment'), join(root, 'copied', String(number)))
  execFileSync('sync', ['-f', root])
  const copy = ((performance.now() - began) / 1000) * (segments / copied)
  for (const [index, { seconds, memory }] of hundreds.entries())
    print(`segments ${index * 100 + 1} to ${(index + 1) * 100}`, `${(1677.7 / seconds).toFixed(0)} MB/s, ${memory} MiB`)
  if (s3 !== undefined) {
    const straight = await measureStraight(s3, bytes, name)
    print(
      'WAL: rate relative to the same work without the archive',
      `${(straight / (ours / segments)).toFixed(2)} (without: ${((16 * MiB) / 1e6 / straight).toFixed(0)} MB/s)`,
    )
  }
  print('WAL', against(megabytes / ours, 100, 'at least', ' MB/s'))
  print('WAL: rate relative to a file copy', (copy / ours).toFixed(2))
  print('processor time of the archive', `${ms.toFixed(1)} ms for each MB`)
  print('memory of the archive, maximum', `${peakMiB(archive)} MiB`)
}

/** Does the work of agent and store: digest, compression and a conditional write. @returns the seconds per segment */
async function measureStraight(
  { settings }: S3Server,
  bytes: Buffer,
  name: (number: number) => string,
): Promise<number> {
  const store = await openS3Store({ ...settings, prefix: 'straight' })
  const seconds = await each(copied, concurrent, async number => {
    digestOf(bytes)
    await store.create(name(number), compressed(slices(bytes)))
  })
  store.close()
  return seconds / copied
}

async function measureAtRest(port: number, archive: ChildProcess): Promise<void> {
  const clients = Array.from({ length: databases }, () => clientOf(1))
  const bytes = randomBytes(4096)
  const digest = digestOf(bytes)
  for (const round of ['connect and send a piece', 'send a piece']) {
    const took: number[] = []
    const before = processorMs(archive)
    const offset = round === 'send a piece' ? bytes.length : 0
    const seconds = await each(databases, 16, async number => {
      const began = performance.now()
      const name = `tail/${hex(1)}${hex(0)}${hex(1)}.${hex(offset)}-${hex(bytes.length)}`
      await putPatiently(port, clients[number] as Client, name, bytes, digest)
      took.push(performance.now() - began)
    })
    const ms = ((processorMs(archive) - before) / databases).toFixed(1)
    print(
      `${databases} databases at rest: ${round}`,
      `${(databases / seconds).toFixed(0)}/s, p95 ${percentile(took, 0.95).toFixed(0)} ms, ${ms} ms of processor time each`,
    )
  }
  print('memory of the archive with their connections', `${peakMiB(archive)} MiB`)
  await measureMinute(port, archive, clients, bytes)
  for (const { agent } of clients) agent.destroy()
}

/** Measures one minute. The pieces are spread evenly over the minute, as those of independent databases are. */
async function measureMinute(port: number, archive: ChildProcess, clients: Client[], bytes: Buffer): Promise<void> {
  const [took, digest]: [number[], string] = [[], digestOf(bytes)]
  let [connections, refused] = [0, 0]
  const count = () => connections++
  const before = processorMs(archive)
  const began = performance.now()
  await Promise.all(
    clients.map(async (client, index) => {
      client.agent.on('keylog', count)
      await sleep((index / clients.length) * pauseMs)
      const sent = performance.now()
      const name = `tail/${hex(1)}${hex(0)}${hex(1)}.${hex(2 * bytes.length)}-${hex(bytes.length)}`
      const failed = await putPatiently(port, client, name, bytes, digest)
      refused += failed
      took.push(performance.now() - sent)
    }),
  )
  const seconds = (performance.now() - began) / 1000
  const busy = (processorMs(archive) - before) / 1000
  print(
    `${databases} databases, each sends a piece every ${pauseMs / 1000} s`,
    `${(took.length / seconds).toFixed(0)}/s, p95 ${percentile(took, 0.95).toFixed(0)} ms, ${((busy / seconds) * 100).toFixed(0)} % of a core, ${((busy * 1000) / took.length).toFixed(1)} ms each, ${residentMiB(archive)} MiB`,
  )
  // The number of logged secrets is divided by 5, because TLS 1.3 logs five secrets for each connection.
  print('connections opened during this, and attempts refused', `${(connections / 5).toFixed(0)}, ${refused}`)
}

const { flags, env, server } = await startStore()
const port = await freePort()
const archive = await startArchive(port, flags, env)
try {
  if (segments > 0) await measureSegments(port, archive, server)
  if (databases > 0) await measureAtRest(port, archive)
  print('load average of the machine', (loadavg()[0] ?? 0).toFixed(1))
} finally {
  archive.kill('SIGTERM')
  await once(archive, 'exit')
  await server?.stop()
  rmSync(root, { recursive: true, force: true })
}
