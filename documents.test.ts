/** Checks that the repository has every file, heading, command and test that documents and comments name. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { commandBlocks, notRun, run } from './.ci/command-blocks.ts'
import { listedSkips } from './.ci/listed-skips.ts'
import packageFile from './package.json' with { type: 'json' }

const exclude = (path: string) =>
  /^(node_modules|mutants\/(node_modules|\.sandbox)|console\/(node_modules|dist)|\.git|\.kind|\.espalier)/.test(path)
const documents = globSync('**/*.md', { exclude })
const textOf = (path: string) => readFileSync(path, 'utf8')

/** Removes code, in which brackets are not links and `#` begins a comment. */
const prose = (text: string) =>
  text.replace(/^(```[\s\S]*?^```|( {4}|\t).*)$/gm, '').replace(/`[^`\n]*`/g, match => match.replace(/[[\]()#]/g, ''))

/** Returns the anchors that GitHub generates from the headings of a document. */
const anchorsOf = (path: string) =>
  [...textOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

test('every link in a document has an existing file and heading as its target', () => {
  const links = documents.flatMap(path =>
    [...prose(textOf(path)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => ({ path, target })),
  )
  expect(links.length).toBeGreaterThan(100)
  const broken = links
    .filter(({ target }) => !/^(https?|mailto):/.test(target))
    .filter(({ path, target }) => {
      const [file = '', anchor] = target.split('#')
      const linked = file === '' ? path : normalize(join(dirname(path), file))
      return !existsSync(linked) || (anchor !== undefined && !anchorsOf(linked).includes(anchor))
    })
  expect(broken).toEqual([])
})

test('every `make` target, `npm run` script and `espalier` command in a document exists', () => {
  const targets = [...textOf('Makefile').matchAll(/^([a-z-]+):/gm)].map(([, name]) => name)
  const tables = ['bin/main.ts', 'cli/index.ts'].map(textOf).join('\n')
  const commands = [...tables.matchAll(/^ {2}'?([a-z-]+)'?: \[\s*'/gm)].map(([, name]) => name)
  expect(commands).toEqual(expect.arrayContaining(['run', 'db']))
  const known: [RegExp, (string | undefined)[]][] = [
    [/(?:^|`| |\()make (?:-s )?([a-z][a-z-]*)(?=$|[`\s),;.])/gm, targets],
    [/npm run (?:-s )?([a-z-]+)/g, Object.keys(packageFile.scripts)],
    [/(?:bin\/espalier(?:\.mjs)?|`espalier) ([a-z][a-z-]+)/g, commands],
  ]
  // Reads only code, because prose contains phrases such as "make sure".
  const codeOf = (text: string) =>
    [...text.matchAll(/^ {4}\S.*$|^```[\s\S]*?^```|`[^`\n]+`/gm)].map(([code]) => code.replace(/^\$ /, '')).join('\n')
  const unknown = documents.flatMap(path =>
    known.flatMap(([pattern, names]) =>
      [...codeOf(textOf(path)).matchAll(pattern)]
        .filter(([, name]) => !names.includes(name))
        .map(([text]) => ({ path, text: text.trim() })),
    ),
  )
  expect(unknown).toEqual([])
})

test('a test runs every block of commands, or its entry has the reason why no test does', () => {
  const pages = ['README.md', 'CONTRIBUTING.md', 'AGENTS.md', ...globSync('docs/*.md')]
  const blocks = pages.flatMap(file => commandBlocks(textOf(file)).map(block => ({ file, ...block })))
  expect(blocks.length).toBeGreaterThan(100)
  type Entry = { file: string; heading: string | undefined }
  const entries = [...run, ...notRun].flatMap(({ file, headings }): Entry[] =>
    headings === undefined ? [{ file, heading: undefined }] : headings.map(heading => ({ file, heading })),
  )
  const covers = (entry: Entry, { file, heading }: { file: string; heading: string }): boolean =>
    entry.file === file && (entry.heading === undefined || entry.heading === heading)
  const listings = blocks.map(({ file, heading, line }) => ({
    block: `${file}:${line} (${heading})`,
    count: entries.filter(entry => covers(entry, { file, heading })).length,
  }))
  expect(listings.filter(({ count }) => count !== 1)).toEqual([])
  expect(entries.filter(entry => !blocks.some(block => covers(entry, block)))).toEqual([])
  // The test contains the name of the page, or it runs the entries that name the test.
  const reads = (path: string, file: string) =>
    textOf(path).includes(file) || textOf(path).includes(`test: path }) => path === '${path}'`)
  expect(run.filter(({ file, test: path }) => !reads(path, file))).toEqual([])
})

test('the example in docs/testing-the-operator.md equals operator/example.test.ts', () => {
  const [, example] = /^```ts\n([\s\S]*?)^```/m.exec(textOf('docs/testing-the-operator.md')) ?? []
  expect(example).toBe(textOf('operator/example.test.ts'))
})

test('each decision has a unique number, and the list has the decisions in that order', () => {
  const files = globSync('docs/decisions/[0-9]*.md').map(path => basename(path))
  const listed = [...textOf('docs/decisions/README.md').matchAll(/^\| \[(\d+)\]\(([^)]+)\)/gm)]
  expect(listed.map(([, , file]) => file)).toEqual(files.sort())
  expect(listed.every(([, number = '', file]) => file?.startsWith(`${number}-`))).toBe(true)
  expect(new Set(listed.map(([, number]) => number)).size).toBe(listed.length)
})

test('docs/skipped-tests.md lists every test that can skip itself', () => {
  const paths = globSync('**/*.test.ts', { exclude })
  const skipping = paths.flatMap(path => [
    ...textOf(path).matchAll(/test\(\s*'([^'\n]+)',(?: \{[^}]*\},)?\s*async \(\{[^})]*\bskip\b/g),
  ])
  const names = skipping.map(([, name = '']) => name)
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter(name => ![...listedSkips].some(listed => listed.endsWith(name)))).toEqual([])
})

test('`make help` lists every target for users', () => {
  const makefile = textOf('Makefile')
  const targets = [...makefile.matchAll(/^([a-z][a-z0-9-]*):/gm)].map(([, name]) => name)
  const listed = [...makefile.matchAll(/@echo 'make ([a-z0-9-]+)/g)].map(([, name]) => name)
  expect(targets.filter(name => name !== 'help' && name !== 'install' && !listed.includes(name))).toEqual([])
  const phony = /^\.PHONY: (.*)$/m.exec(makefile)?.[1]?.split(' ') ?? []
  expect(targets.filter(name => name !== undefined && name !== 'help' && !phony.includes(name))).toEqual([])
})

test('no file names a document that does not exist', () => {
  const files = globSync('**/*.{ts,mjs,md,yaml,tpl,txt}', { exclude }).filter(path => path !== 'documents.test.ts')
  const foreign = /\bseeds? 0\d\d\b|\bthe seed (says|states|of)\b|\bdesign section\b|(?<!docs\/)\bdesign\.md\b/i
  expect(files.filter(path => foreign.test(textOf(path)))).toEqual([])
  const named = files.flatMap(path =>
    [...textOf(path).matchAll(/\bdocs\/[\w./-]+\.md\b/g)].map(([document]) => ({ path, document })),
  )
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter(({ document }) => !existsSync(document))).toEqual([])
})

test('a comment names only source files that exist', () => {
  const files = globSync('**/*.{ts,tsx}', { exclude })
  // The pattern skips folders that begin with a dot.
  const names = new Set([...files, ...globSync('.ci/*.ts')].map(path => basename(path)))
  const named = files.flatMap(path =>
    [...textOf(path).matchAll(/^\s*(?:\*|\/\*|\/\/).*$/gm)].flatMap(([comment]) =>
      [...comment.matchAll(/[\w-][\w.-]*\.tsx?\b/g)].map(([name]) => ({ path, name })),
    ),
  )
  expect(named.length).toBeGreaterThan(50)
  expect(named.filter(({ name }) => !names.has(name))).toEqual([])
})
