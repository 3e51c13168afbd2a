import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../../services/testing/client.ts'
import { main } from '../main.ts'

const program = join(import.meta.dirname, '..', 'espalier.mjs')

function folderWith(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'rag-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'espalier-rag.yaml'), text)
  return folder
}

const configuration = (name: string) => `
server: { port: 0 }
pipelines:
  - name: ${name}
    database: { port: 1 }
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m, base_url: http://127.0.0.1:1 }
    rag_llm: { provider: ollama, model: m, base_url: http://127.0.0.1:1 }
`

async function run(...args: string[]): Promise<{ code: number; out: string; errors: string }> {
  const out = vi.spyOn(console, 'log').mockImplementation(() => {})
  const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
  try {
    const code = await main(['rag', ...args])
    const lines = (calls: unknown[][]) => calls.map(call => call.join(' ')).join('\n')
    return { code, out: lines(out.mock.calls), errors: lines(errors.mock.calls) }
  } finally {
    out.mockRestore()
    errors.mockRestore()
  }
}

async function stop(child: ChildProcess): Promise<unknown> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  return child.exitCode
}

test('without arguments, reads the file in its folder, serves this machine only, and reloads the file on SIGHUP', async () => {
  const folder = folderWith(configuration('docs'))
  const child = spawn(process.execPath, [program, 'rag'], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void stop(child))
  let [out, errors] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => (out += text))
  child.stderr.setEncoding('utf8').on('data', text => (errors += text))
  await until(() => out.includes('listens on'))
  const [, base] = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(out) ?? []
  const names = async () => (await fetch(`${base}/v1/pipelines`)).text()
  expect(await names()).toContain('"docs"')
  await until(() => errors.includes('for this machine only'))
  // An unreachable database or provider does not prevent the start.
  expect(await (await fetch(`${base}/v1/health`)).json()).toMatchObject({
    status: 'degraded',
    pipelines: [{ database: { reachable: false }, embedding: { reachable: false }, completion: { reachable: false } }],
  })
  writeFileSync(join(folder, 'espalier-rag.yaml'), configuration('other'))
  child.kill('SIGHUP')
  await until(async () => (await names()).includes('"other"'))
  expect(await stop(child)).toBe(0)
})

test('prints the OpenAPI description and the help', async () => {
  const { code, out } = await run('--openapi')
  expect(code).toBe(0)
  expect(JSON.parse(out)).toMatchObject({ openapi: '3.0.3' })
  expect((await run('--help')).out).toContain('espalier rag CONFIG')
  expect((await run('load', '--help')).out).toContain('espalier rag load')
})

test('reports all problems of the configuration, and a missing file', async () => {
  const folder = folderWith('server: { prot: 1 }\npipelines: [{ name: a/b }]\n')
  const { code, errors } = await run(join(folder, 'espalier-rag.yaml'))
  expect(code).toBe(2)
  for (const part of ['server.prot', 'nearest one is server.port', 'pipelines[0].name', 'pipelines[0].tables'])
    expect(errors).toContain(part)
  expect(await run('-config', join(folder, 'none.yaml'))).toMatchObject({
    errors: expect.stringContaining('cannot be read'),
  })
  expect(await run('a.yaml', '-config', 'b.yaml')).toMatchObject({ code: 2 })
  expect(await run('-confg', 'a')).toMatchObject({ errors: expect.stringContaining('did you mean -config?') })
})
