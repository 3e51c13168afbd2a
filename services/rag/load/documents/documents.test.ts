import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { estimateTokens } from '../../../retrieval/tokens.ts'
import { cpuTimeOf } from '../../../testing/cpu-time.ts'
import { decodeText } from './decode.ts'
import { sourceFiles } from './files.ts'
import { htmlBlocks } from './html.ts'
import { markdownBlocks } from './markdown.ts'
import { passagesOf } from './read.ts'
import { csvPassages, jsonPassages } from './rows.ts'
import { passages } from './split.ts'
import { textBlocks } from './text.ts'
import type { Block } from './types.ts'

let root = ''
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'rag-documents-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

const guide = `---
title: The guide
---
# The guide

First words.

## Install *quickly*

Run it:

\`\`\`sh
make run

make test
\`\`\`

- one
- two

## Limits

| size | memory |
|---|---|
| nano | 1 |
`

test('Markdown: separates headings, code, lists and tables, and records their positions', () => {
  const found = passages('guide.md', markdownBlocks(guide), 400)
  expect(found.map(({ heading, content }) => [heading, content])).toEqual([
    ['The guide', 'The guide\n\nFirst words.'],
    [
      'The guide > Install quickly',
      'The guide > Install quickly\n\nRun it:\n\n```sh\nmake run\n\nmake test\n```\n\n- one\n- two',
    ],
    ['The guide > Limits', 'The guide > Limits\n\n| size | memory |\n|---|---|\n| nano | 1 |'],
  ])
  expect(found.map(({ position }) => guide.slice(position).slice(0, 9))).toEqual([
    'First wor',
    'Run it:\n\n',
    '| size | ',
  ])
  expect(found.map(({ ordinal }) => ordinal)).toEqual([0, 1, 2])
})

test('Markdown: a rule at the beginning is not front matter', () => {
  expect(markdownBlocks('---\n\nKept\n\n---\n\nAlso').map(({ text }) => text)).toEqual(['Kept', 'Also'])
})

test('Markdown: drops comments, except in code', () => {
  const text = '<!-- hidden -->\n\nshown <!-- not --> here\n\n```html\n<!-- code -->\n```'
  expect(markdownBlocks(text).map(block => block.text)).toEqual(['shown  here', '```html\n<!-- code -->\n```'])
})

test('makes each part of long code and of a long table readable on its own', () => {
  const lines = Array.from({ length: 200 }, (_, index) => `echo number ${index}`)
  const code = passages('a', markdownBlocks(`\`\`\`sh\n${lines.join('\n')}\n\`\`\``), 100)
  expect(code.length).toBeGreaterThan(5)
  expect(code.every(({ content }) => /^```sh\n[^`]*\n```$/.test(content))).toBe(true)
  const rows = Array.from({ length: 200 }, (_, index) => `| row ${index} | value |`)
  const table = passages('a', markdownBlocks(`| name | is |\n|---|---|\n${rows.join('\n')}\n`), 100)
  expect(table.length).toBeGreaterThan(5)
  expect(table.every(({ content }) => content.startsWith('| name | is |\n|---|---|\n| row '))).toBe(true)
})

test('HTML: drops scripts and navigation, decodes entities, and keeps title, headings, lists, tables and code', () => {
  const page = `<!doctype html><html><head><title>Fish &amp; chips</title><style>p{}</style><script>alert(1)</script></head>
    <body><nav><a href="/">Home</a></nav><p>Caf&eacute; <b>now</b>&nbsp;open<br>daily<p>Second
    <h2>Menu</h2><ul><li>cod<ul><li>fried</ul><li>plaice</ul><table><tr><th>dish<th>price<tr><td>cod<td>5&euro;</table>
    <pre>line 1
  line 2</pre><div hidden>secret</div><footer>©</footer></body></html>`
  const found = passages('page.html', htmlBlocks(page), 400)
  expect(found.map(({ heading, content }) => [heading, content])).toEqual([
    ['Fish & chips', 'Fish & chips\n\nCafé now open daily\n\nSecond'],
    [
      'Fish & chips > Menu',
      'Fish & chips > Menu\n\n- cod\n  - fried\n- plaice\n\n| dish | price |\n| cod | 5€ |\n\nline 1\n  line 2',
    ],
  ])
  expect(found.map(({ position }) => page.slice(position, position + 4))).toEqual(['Café'.replace('é', '&'), '<ul>'])
})

test('reads a page with very deep nesting without a crash', () => {
  expect(htmlBlocks('<div>'.repeat(20_000)).length).toBe(0)
  expect(htmlBlocks(`<p>before${'<b>'.repeat(5_000)}`)[0]?.text).toBe('before')
})

test.each([
  ['list in list', Array.from({ length: 2_000 }, (_, level) => `${' '.repeat(2 * level)}- a`).join('\n')],
  ['list in list on one line', `${'- '.repeat(100_000)}a`],
  ['quote in quote', `${'>'.repeat(100_000)} a`],
  ['numbers', `${'1. '.repeat(100_000)}a`],
  ['quotes and lists', `${'> - '.repeat(50_000)}a`],
  ['a heading of brackets', `# ${'['.repeat(10_000)}a`],
  ['a heading of angles', `# ${'<'.repeat(10_000)}a`],
])('reads Markdown with very deep nesting quickly: %s', (_, text) => {
  // Measures CPU time, because other processes of the machine affect wall-clock time.
  const spent = cpuTimeOf(() => expect(markdownBlocks(text).length).toBeGreaterThan(0))
  expect(spent / 1000).toBeLessThan(3_000)
})

test('Markdown: long rules and indented code do not count as nesting', () => {
  const text = `# A\n\n${'-'.repeat(300)}\n\n${'* '.repeat(40)}\n\n${'>'.repeat(20)} a\n\n- b\n${' '.repeat(90)}- c`
  expect(markdownBlocks(text)[0]).toMatchObject({ kind: 'heading', text: 'A' })
})

test('file names cannot send control sequences to the terminal', async () => {
  const rows = jsonPassages(texts('{'), { name: 'a\x1b[2J\r\x9b.jsonl', maximumTokens: 10 })
  await expect(rows.next()).rejects.toThrow('a?[2J??.jsonl line 1: is not JSON')
})

test('splits text at empty lines, or elsewhere if it has none', () => {
  expect(textBlocks('one\r\ntwo\r\n \r\nthree\n\n\n').map(({ text, offset }) => [text, offset])).toEqual([
    ['one\r\ntwo', 0],
    ['three', 13],
  ])
  expect(textBlocks('word '.repeat(50_000)).length).toBeGreaterThan(3)
})

const word = fc.stringMatching(/^[a-zé中.]{1,30}$/)
const block: fc.Arbitrary<Block> = fc.record({
  kind: fc.constantFrom('text' as const, 'code' as const, 'list' as const, 'table' as const),
  text: fc
    .array(fc.tuple(word, fc.constantFrom(' ', '\n', '. ')), { minLength: 1, maxLength: 80 })
    .map(parts => parts.flat().join('').trim()),
  offset: fc.nat(1_000),
})

test('loses no word, makes no passage much too large, and gives unique keys', () => {
  const heading = fc.record({
    kind: fc.constant('heading' as const),
    level: fc.integer({ min: 1, max: 6 }),
    text: fc.constantFrom('Alpha', 'Beta'),
    offset: fc.nat(1_000),
  })
  fc.assert(
    fc.property(
      fc.array(fc.oneof(block, heading), { maxLength: 12 }),
      fc.integer({ min: 20, max: 200 }),
      (blocks, most) => {
        const found = passages('d', blocks, most)
        const words = (text: string) => text.split(/\s+/).filter(one => one !== '' && one.length < 16)
        const all = new Set(found.flatMap(({ content }) => words(content)))
        const body = blocks.filter(({ kind }) => kind !== 'heading').flatMap(({ text }) => words(text))
        expect(body.filter(one => !all.has(one))).toEqual([])
        for (const { content } of found) expect(estimateTokens(content)).toBeLessThan(most * 2 + 40)
        expect(new Set(found.map(({ key }) => key)).size).toBe(found.length)
      },
    ),
    { numRuns: 60 },
  )
})

async function* texts(...pieces: string[]): AsyncGenerator<string> {
  yield* pieces
}
async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}
const options = { name: 'f', maximumTokens: 400 }

test("CSV: a row is a document with the names of its columns, and its id is the document's name", async () => {
  const csv = 'id;name;note\r\n7;Ann;"a; b\r\nsecond"\r\n8;Bob;\r\n'
  const found = await all(csvPassages(texts(csv.slice(0, 20), csv.slice(20)), options))
  expect(found.map(({ document, content }) => [document, content])).toEqual([
    ['7', 'id: 7\nname: Ann\nnote: a; b\r\nsecond'],
    ['8', 'id: 8\nname: Bob'],
  ])
  expect(csv.slice(found[1]?.position, (found[1]?.position ?? 0) + 5)).toBe('8;Bob')
  const unnamed = await all(csvPassages(texts('a,b\n1,2\n3,4\n'), options))
  expect(unnamed.map(({ document }) => document)).toEqual(['f#1', 'f#2'])
})

test('refuses invalid CSV with file and line', async () => {
  await expect(all(csvPassages(texts('a,b\n1,2,3\n'), options))).rejects.toThrow(/^f: .*line 2/)
  await expect(all(csvPassages(texts('a,b\n1,"2\n'), options))).rejects.toThrow(/^f: .*Quote/)
})

test('JSON lines keep their ids; an invalid line is refused with its line number', async () => {
  const lines = '{"id":"d1","title":"T","text":"body"}\n\n{"_id":2,"text":"only"}'
  const found = await all(jsonPassages(texts(lines.slice(0, 10), lines.slice(10)), options))
  expect(found.map(({ document, content, position }) => [document, content, position])).toEqual([
    ['d1', 'T\n\nbody', 0],
    ['2', 'only', 39],
  ])
  await expect(all(jsonPassages(texts('{"text":"a"}\n{"text":1}'), options))).rejects.toThrow('f line 2: text')
  await expect(all(jsonPassages(texts('nonsense'), options))).rejects.toThrow('f line 1: is not JSON')
})

test('reads UTF-16, and UTF-8 with and without a byte order mark; refuses other encodings with the file name', () => {
  const utf16 = Buffer.from('\uFEFFGrüße', 'utf16le')
  expect(decodeText(Buffer.from('\uFEFFGrüße'), 'a')).toBe('Grüße')
  expect(decodeText(utf16, 'a')).toBe('Grüße')
  expect(decodeText(Buffer.from(utf16).swap16(), 'a')).toBe('Grüße')
  expect(() => decodeText(Buffer.from('Grüße', 'latin1'), 'a.txt')).toThrow('a.txt: is not UTF-8')
  expect(() => decodeText(Buffer.from([0x7f, 0x45, 0, 1]), 'a.txt')).toThrow('a.txt: is a binary file')
})

test.each<[string, BufferEncoding | 'utf-8 with a mark', string]>([
  ['<meta charset="windows-1252">', 'latin1', 'Grüße'],
  ["<META http-equiv='Content-Type' content='text/html; charset=ISO-8859-1'>", 'latin1', 'Grüße'],
  ['<?xml version="1.0" encoding="iso-8859-1"?>', 'latin1', 'Grüße'],
  ['<meta charset=utf-8>', 'utf8', 'Grüße'],
  ['<meta charset="utf-16">', 'utf8', 'Grüße'],
  ['<!-- <meta charset="koi8-r"> -->', 'utf8', 'Grüße'],
  ['<meta charset="windows-1252">', 'utf-8 with a mark', 'Grüße'],
  ['<meta charset="windows-1252">', 'utf16le', 'Grüße'],
])('reads HTML with %s in %s', async (declaration, encoding, expected) => {
  const path = join(root, 'page.html')
  const text = `${declaration}<p>Grüße</p>`
  const hasByteOrderMark = encoding === 'utf-8 with a mark' || encoding === 'utf16le'
  const bytes = Buffer.from(
    `${hasByteOrderMark ? '\uFEFF' : ''}${text}`,
    encoding === 'utf-8 with a mark' ? 'utf8' : encoding,
  )
  writeFileSync(path, bytes)
  const file = { path, source: 'page.html', format: 'html', bytes: bytes.length } as const
  const found: string[] = []
  for await (const { content } of passagesOf(file, 400)) found.push(content)
  expect(found).toEqual([expected])
})

test.each([
  ['<meta charset="klingon">', 'latin1', 'page.html: its encoding "klingon" is unknown'],
  ['<meta charset="utf-8">', 'latin1', 'page.html: is not UTF-8'],
  ['<meta charset="shift_jis">\xff', 'latin1', 'page.html: is not valid shift_jis'],
] as const)('refuses HTML with %s in %s, and names the file', async (declaration, encoding, message) => {
  const path = join(root, 'page.html')
  writeFileSync(path, Buffer.from(`${declaration}<p>Grüße</p>`, encoding))
  const file = { path, source: 'page.html', format: 'html', bytes: 100 } as const
  await expect(passagesOf(file, 400).next()).rejects.toThrow(message)
})

test('reads all files in directories; refuses an unknown format only if the file is named', async () => {
  mkdirSync(join(root, 'files/inner'), { recursive: true })
  mkdirSync(join(root, 'files/.git'))
  for (const name of ['files/a.md', 'files/inner/b.HTML', 'files/c.png', 'files/.git/x.md'])
    writeFileSync(join(root, name), 'x')
  symlinkSync(join(root, 'files'), join(root, 'files/inner/round'))
  const found = await sourceFiles(['files', 'files/a.md'], root)
  expect(found.map(({ source, format }) => [source, format])).toEqual([
    ['files/a.md', 'markdown'],
    ['files/inner/b.HTML', 'html'],
  ])
  await expect(sourceFiles(['files/c.png'], root)).rejects.toThrow('files/c.png: unknown format')
  await expect(sourceFiles(['none.md'], root)).rejects.toThrow('none.md: cannot be read (ENOENT)')
  writeFileSync(join(root, 'large.md'), Buffer.alloc(16_777_217, 'a'))
  await expect(sourceFiles(['large.md'], root)).rejects.toThrow('large.md: has 16777217 bytes')
})

test('reads CSV as a stream', async () => {
  const path = join(root, 'rows.csv')
  writeFileSync(path, `a,b\n${'1,2\n'.repeat(300_000)}`)
  const [file] = await sourceFiles([path], root)
  if (file === undefined) throw new Error('no file')
  for await (const { document } of passagesOf(file, 400)) {
    expect(document).toBe('rows.csv#1')
    break
  }
})
