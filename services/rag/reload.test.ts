/** The server detects changes of its configuration by the content of the files. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/client.ts'
import { readRagSettings } from './configuration/index.ts'
import { startRag } from './index.ts'
import { type FakePipeline, fakePipeline, streamOf } from './testing/fake-pipeline.ts'

const pipeline = (name: string, more = '') => `
  - name: ${name}
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { provider: openai, model: m }
    ${more}`

async function start(file: (folder: string) => string, text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'rag-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'key'), 'first')
  const write = (all: string) =>
    writeFileSync(file(folder), `server: { port: 0 }\napi_keys: { openai: ${folder}/key }\npipelines:${all}`)
  write(text)
  const made: FakePipeline[] = []
  const lines: string[] = []
  const loggers: Logger[] = []
  let reads = 0
  const released = Promise.withResolvers<void>()
  const service = await startRag({
    read: onFile => {
      reads += 1
      return readRagSettings(join(folder, 'rag.yaml'), { environment: { HOME: folder }, onFile })
    },
    logger: pino({ level: 'info' }, { write: line => void lines.push(line) }),
    makePipeline: (settings, { logger }) => {
      loggers.push(logger)
      const one = fakePipeline(settings, {
        pieces: async function* ({ query }) {
          if (query === 'wait') await released.promise
          yield* streamOf('done')
        },
      })
      made.push(one)
      return one
    },
    intervalMs: 20,
  })
  onTestFinished(() => service.stop())
  await until(() => reads === 2)
  const names = async () => {
    const answer = await fetch(`http://127.0.0.1:${service.address.port}/v1/pipelines`)
    const { pipelines } = (await answer.json()) as { pipelines: { name: string }[] }
    return pipelines.map(({ name }) => name)
  }
  const sendQuery = (name: string, query: string) =>
    fetch(`http://127.0.0.1:${service.address.port}/v1/pipelines/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    })
  return {
    folder,
    write,
    made,
    lines,
    loggers,
    reads: () => reads,
    service,
    names,
    sendQuery,
    release: released.resolve,
  }
}
const plain = (folder: string) => join(folder, 'rag.yaml')

test('a change recreates the changed pipelines, keeps all other pipelines, and waits for requests to end', async () => {
  const { write, made, names, sendQuery, release, service } = await start(plain, pipeline('kept') + pipeline('gone'))
  await Promise.all([sendQuery('gone', 'x'), sendQuery('kept', 'x')])
  const waiting = sendQuery('gone', 'wait')
  await until(() => made[1]?.searched.length === 2)
  write(pipeline('kept') + pipeline('new'))
  await until(async () => (await names()).includes('new'))
  expect(await names()).toEqual(['kept', 'new'])
  expect(made.map(({ settings: { name } }) => name)).toEqual(['kept', 'gone', 'new'])
  expect((await sendQuery('gone', 'x')).status).toBe(404)
  expect(made[1]?.isClosed()).toBe(false)
  const metrics = async () => (await fetch(`http://127.0.0.1:${service.address.port}/metrics`)).text()
  expect(await metrics()).not.toContain('"gone"')
  release()
  expect((await waiting).status).toBe(200)
  await until(() => made[1]?.isClosed() === true)
  expect(made[0]?.isClosed()).toBe(false)
  expect(await metrics()).not.toContain('"gone"')
  expect(await metrics()).toContain('rag_requests_total{pipeline="kept",outcome="OK"} 1')
})

test('detects a change of a key file, and ignores other files in the directory', async () => {
  const { folder, made, reads } = await start(plain, pipeline('docs'))
  for (let at = 0; at < 20; at++) writeFileSync(join(folder, `log.${at}`), 'noise')
  await new Promise(resolve => setTimeout(resolve, 200))
  expect(reads()).toBe(2)
  expect(made[0]?.settings.completion.apiKey).toBe('first')
  writeFileSync(join(folder, 'key'), 'second')
  await until(() => made.length === 2)
  expect(made[1]?.settings.completion.apiKey).toBe('second')
})

test('an invalid file changes nothing, and all its errors are reported; the next valid file is applied', async () => {
  const { write, made, lines, names } = await start(plain, pipeline('docs'))
  write(pipeline('docs', 'top_n: 0\n    token_budgt: 5') + pipeline('docs'))
  await until(() => lines.some(line => line.includes('the configuration is invalid')))
  const reported = lines.find(line => line.includes('the configuration is invalid')) ?? ''
  for (const part of ['pipelines[0].top_n', 'nearest one is pipelines[0].token_budget', 'pipelines[1].name'])
    expect(reported).toContain(part)
  expect(await names()).toEqual(['docs'])
  expect(made).toHaveLength(1)
  write(pipeline('docs', 'top_n: 3'))
  await until(() => made.length === 2)
})

test('applies the later of two reads, even if checking the filters of the earlier read takes longer', async () => {
  const { write, made, service, names } = await start(plain, pipeline('docs'))
  write(
    pipeline('earlier').replace('vector_column: v', `vector_column: v, filter: "${'lang = 1 OR '.repeat(300)} true"`),
  )
  service.reload()
  write(pipeline('later'))
  service.reload()
  await until(async () => (await names())[0] === 'later')
  await new Promise(resolve => setTimeout(resolve, 300))
  expect(await names()).toEqual(['later'])
  expect(made.map(({ settings }) => settings.name)).toEqual(['docs', 'later'])
})

test('a kept pipeline logs at the new level', async () => {
  const { write, made, loggers } = await start(plain, pipeline('docs'))
  write(`${pipeline('docs')}\nlog_level: debug`)
  await until(() => loggers[0]?.level === 'debug')
  expect(made).toHaveLength(1)
})

test('detects a replaced symbolic link above the file, as Kubernetes replaces it', async () => {
  const { folder, names } = await start(folder => {
    mkdirSync(join(folder, 'one'))
    symlinkSync('one', join(folder, '..data'))
    symlinkSync('..data/rag.yaml', join(folder, 'rag.yaml'))
    return join(folder, 'one', 'rag.yaml')
  }, pipeline('docs'))
  mkdirSync(join(folder, 'two'))
  writeFileSync(
    join(folder, 'two', 'rag.yaml'),
    `server: { port: 0 }\napi_keys: { openai: ${folder}/key }\npipelines:${pipeline('other')}`,
  )
  symlinkSync('two', join(folder, '..new'))
  renameSync(join(folder, '..new'), join(folder, '..data'))
  await until(async () => (await names())[0] === 'other')
})
