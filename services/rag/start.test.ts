/** A start with TLS and an open address, and errors that prevent a start. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { startRag } from './index.ts'
import { type FakePipeline, fakePipeline } from './testing/fake-pipeline.ts'
import { settingsOf } from './testing/settings.ts'

const text = (server: string) => `
server: { ${server} }
pipelines:
  - name: docs
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { provider: ollama, model: m }`

function start(server: string) {
  const lines: string[] = []
  const made: FakePipeline[] = []
  const starting = startRag({
    read: () => settingsOf(text(server)),
    logger: pino({}, { write: line => void lines.push(line) }),
    makePipeline: settings => {
      const one = fakePipeline(settings)
      made.push(one)
      return one
    },
  })
  return { starting, lines, made }
}

test('serves only TLS, and warns if every address can connect', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rag-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const authority = createAuthority()
  const { cert, key } = issueServerCertificate(authority, { dnsNames: ['rag.test'] })
  writeFileSync(join(folder, 'cert'), cert)
  writeFileSync(join(folder, 'key'), key)
  const { starting, lines } = start(
    `port: 0, listen_address: 0.0.0.0, tls: { cert_file: ${folder}/cert, key_file: ${folder}/key }`,
  )
  const service = await starting
  onTestFinished(() => service.stop())
  const answered = new Promise<number | undefined>((resolve, reject) => {
    const { port } = service.address
    const options = {
      host: '127.0.0.1',
      port,
      path: '/v1/live',
      servername: 'rag.test',
      ca: authority.cert,
      agent: false,
    }
    get(options, answer => resolve(answer.resume().statusCode)).on('error', reject)
  })
  expect(await answered).toBe(200)
  await expect(fetch(`http://127.0.0.1:${service.address.port}/v1/live`)).rejects.toThrow()
  expect(lines.join()).toContain('there is no authentication')
})

test('reports an unusable file or port with its key', async () => {
  await expect(start('port: 0, tls: { cert_file: /none, key_file: /none-either }').starting).rejects.toThrow(
    'server.tls.cert_file: cannot read /none (ENOENT)',
  )
  const other = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => other.once('listening', resolve))
  onTestFinished(() => void other.close())
  const address = other.address()
  const { starting, made } = start(`port: ${typeof address === 'object' ? address?.port : 0}`)
  await expect(starting).rejects.toThrow(
    /^server\.port: cannot listen on port \d+ of 127\.0\.0\.1: .*EADDRINUSE.*set another port$/,
  )
  expect(made[0]?.isClosed()).toBe(true)
})
