/** Runs commands against an API in the same process, and returns their output. */
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { type Client, setSnapshotClass, startClient } from '../../api/testing/client.ts'
import { type HarnessOptions, token } from '../../api/testing/harness.ts'
import { startStandIn } from '../../api/testing/stand-in.ts'
import { systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap } from '../../sealing/credentials.ts'
import { runClient } from '../index.ts'

type Output = { code: number; out: string; err: string }

class Captured extends Writable {
  text = ''
  isTTY = false
  columns = 120
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

type Options = {
  /** The text typed on a terminal. If absent, standard input is a pipe with the text `piped`. */
  typed?: string
  piped?: string | Iterable<string>
  directory?: string
  environment?: NodeJS.ProcessEnv
  completionLimitMs?: number
}

/** Runs one command in this process. */
export async function runCommand(line: string | readonly string[], options: Options = {}): Promise<Output> {
  const [name = '', ...args] = typeof line === 'string' ? line.split(' ') : line
  const given = options.typed ?? options.piped ?? ''
  const stream = typeof given === 'string' ? new PassThrough().end(given) : Readable.from(given)
  const input = Object.assign(stream, { isTTY: options.typed !== undefined })
  const [output, errors] = [new Captured(), new Captured()]
  const io = {
    environment: options.environment ?? {},
    directory: options.directory ?? '/nonexistent',
    input,
    output,
    errors,
  }
  const code = await runClient(name, args, { io, completionLimitMs: options.completionLimitMs })
  return { code, out: output.text, err: errors.text }
}

export type Cli = {
  api: Client
  url: string
  /** A temporary folder. Commands write their configuration, cache and project file to this folder. */
  directory: string
  environment: NodeJS.ProcessEnv
  run(line: string | readonly string[], options?: Options): Promise<Output>
  close(): Promise<void>
}

/** Starts an API and a fake operator. Returns a runner for one tenant's commands. */
export async function startCli(options: HarnessOptions = {}): Promise<Cli> {
  const api = await startClient(options)
  const stopStandIn = await startStandIn(api)
  await setSnapshotClass(api, { name: 'snapshots', atomic: true })
  await api.cluster.apply('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: systemNamespace, name: authorityConfigMap },
    data: { 'ca.crt': '-----BEGIN CERTIFICATE-----\none\n-----END CERTIFICATE-----\n' },
  })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`
  const directory = mkdtempSync(join(tmpdir(), 'espalier-cli-'))
  const environment: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: directory,
    XDG_CONFIG_HOME: join(directory, 'config'),
    XDG_CACHE_HOME: join(directory, 'cache'),
    ESPALIER_API_URL: url,
    ESPALIER_TOKEN: await token(),
  }
  return {
    api,
    url,
    directory,
    environment,
    run: (line, { environment: more, ...rest } = {}) =>
      runCommand(line, { directory, completionLimitMs: 60_000, ...rest, environment: { ...environment, ...more } }),
    close: async () => {
      await stopStandIn()
      await api.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Replaces the parts of the output that differ between runs: ids, times, ages and branch names. */
export const golden = (text: string): string =>
  text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/\b\d+[smhd] ago/g, 'AGO')
    .replace(/(?<=shop-)[0-9a-f]{8}\b/g, 'XXXXXXXX')
