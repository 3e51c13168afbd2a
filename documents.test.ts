/** What a reader of the repository meets leads somewhere: links in documents, commands they give, and what comments name. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import packageFile from './package.json' with { type: 'json' }

const exclude = (path: string) => /^(node_modules|mutants\/(node_modules|\.sandbox)|\.git|\.kind|\.espalier)/.test(path)
const documents = globSync('**/*.md', { exclude })
const textOf = (path: string) => readFileSync(path, 'utf8')

/** Without code, in which brackets are no links and `#` begins a comment. */
const prose = (text: string) =>
  text.replace(/^(```[\s\S]*?^```|( {4}|\t).*)$/gm, '').replace(/`[^`\n]*`/g, match => match.replace(/[[\]()#]/g, ''))

/** Anchors as GitHub and its like make them of headings. */
const anchorsOf = (path: string) =>
  [...textOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

test('every link in a document leads to a file, and to a heading in it', () => {
  const links = documents.flatMap(path =>
    [...prose(textOf(path)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => ({ path, target })),
  )
  expect(links.length).toBeGreaterThan(100)
  const broken = links
    .filter(({ target }) => !/^(https?|mailto):/.test(target))
    .filter(({ path, target }) => {
      const [file = '', anchor] = target.split('#')
      const place = file === '' ? path : normalize(join(dirname(path), file))
      return !existsSync(place) || (anchor !== undefined && !anchorsOf(place).includes(anchor))
    })
  expect(broken).toEqual([])
})

test('every `make` target, `npm run` script and command of ours in a document is there', () => {
  const targets = [...textOf('Makefile').matchAll(/^([a-z-]+):/gm)].map(([, name]) => name)
  const commands = [...textOf('bin/main.ts').matchAll(/^ {2}'?([a-z-]+)'?: \(\) => import/gm)].map(([, name]) => name)
  const known: [RegExp, (string | undefined)[]][] = [
    [/(?:^|`| |\()make (?:-s )?([a-z][a-z-]*)(?=$|[`\s),;.])/gm, targets],
    [/npm run (?:-s )?([a-z-]+)/g, Object.keys(packageFile.scripts)],
    [/(?:bin\/espalier\.mjs|`espalier) ([a-z][a-z-]+)/g, commands],
  ]
  // In code only: prose has "make sure".
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

test('the example of how to test the operator is a test that runs', () => {
  const [, example] = /^```ts\n([\s\S]*?)^```/m.exec(textOf('docs/testing-the-operator.md')) ?? []
  expect(example).toBe(textOf('operator/example.test.ts'))
})

test('each decision has a number of its own, and stands in their list in its turn', () => {
  const files = globSync('docs/decisions/[0-9]*.md').map(path => basename(path))
  const listed = [...textOf('docs/decisions/README.md').matchAll(/^\| \[(\d+)\]\(([^)]+)\)/gm)]
  expect(listed.map(([, , file]) => file)).toEqual(files.sort())
  expect(listed.every(([, number = '', file]) => file?.startsWith(`${number}-`))).toBe(true)
  expect(new Set(listed.map(([, number]) => number)).size).toBe(listed.length)
})

test('the Makefile tells of each of its targets that users call', () => {
  const makefile = textOf('Makefile')
  const targets = [...makefile.matchAll(/^([a-z][a-z0-9-]*):/gm)].map(([, name]) => name)
  const told = [...makefile.matchAll(/@echo 'make ([a-z0-9-]+)/g)].map(([, name]) => name)
  expect(targets.filter(name => name !== 'help' && name !== 'install' && !told.includes(name))).toEqual([])
  const phony = /^\.PHONY: (.*)$/m.exec(makefile)?.[1]?.split(' ') ?? []
  expect(targets.filter(name => name !== undefined && name !== 'help' && !phony.includes(name))).toEqual([])
})

test('nothing names a document that is not here', () => {
  const files = globSync('**/*.{ts,mjs,md,yaml,tpl,txt}', { exclude }).filter(path => path !== 'documents.test.ts')
  const foreign = /\bseeds? 0\d\d\b|\bthe seed (says|states|of)\b|\bdesign section\b|(?<!docs\/)\bdesign\.md\b/i
  expect(files.filter(path => foreign.test(textOf(path)))).toEqual([])
  const named = files.flatMap(path =>
    [...textOf(path).matchAll(/\bdocs\/[\w./-]+\.md\b/g)].map(([document]) => ({ path, document })),
  )
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter(({ document }) => !existsSync(document))).toEqual([])
})
