import { expect, test } from 'vitest'
import { parseYaml } from './yaml.ts'

const read = (text: string, environment?: Record<string, string>) => parseYaml({ text, path: 'f.yaml' }, environment)
const problemsOf = (text: string, environment?: Record<string, string>) =>
  read(text, environment).problems.map(({ key, source, rule }) => {
    return `${key}, line ${source.kind === 'file' ? source.line : 0}: ${rule}`
  })

test('a file is read as tables, lists and values with their lines', () => {
  const { root, sourceOf } = read('a:\n  b: [1, x]\nc: ~\nd: "1"')
  expect(root).toEqual({ a: { b: [1, 'x'] }, c: null, d: '1' })
  expect([['a', 'b', 1], ['d'], ['a', 'missing']].map(path => sourceOf(path))).toEqual([
    { kind: 'file', path: 'f.yaml', line: 2 },
    { kind: 'file', path: 'f.yaml', line: 4 },
    { kind: 'file', path: 'f.yaml', line: 2 },
  ])
  expect(['', '# nothing', '~'].map(text => read(text).root)).toEqual([{}, {}, {}])
})

test('variables and aliases are replaced if the caller passes an environment', () => {
  const variable = (name: string) => `$\{${name}}`
  const text = `a: &a "${variable('NAME')} $5"\nb: *a\nc: "${variable('OTHER')}"`
  const environment = { NAME: 'x: {y}' }
  expect(read(text, environment).root).toEqual({ a: 'x: {y} $5', b: 'x: {y} $5', c: '' })
  expect(problemsOf(text, environment)).toEqual(['c, line 3: needs the environment variable OTHER, which is not set'])
  expect(problemsOf(text)).toEqual(['b, line 2: must not be an alias'])
})

test('a variable with a doubled dollar sign is text', () => {
  expect(read(`a: $\${NAME}\nb: "$$\${NAME} \${NAME}"\nc: $$`, { NAME: 'x' }).root).toEqual({
    a: `\${NAME}`,
    b: `$\${NAME} x`,
    c: '$$',
  })
})

test.each([
  ['a: [', /^the file, line 1: is not YAML/],
  ['- 1', /^the file, line 1: must be a table of keys$/],
  ['? {a: 1}\n: 2', /must have plain keys$/],
  [`${'a: {'.repeat(65)}${'}'.repeat(65)}`, /^(a\.){64}a, line 1: must not be nested deeper than 64$/],
])('%j is refused', (text, problem) => {
  expect(problemsOf(text).join('\n')).toMatch(problem)
})

test('aliases that multiply, or that contain themselves, stop at a limit', () => {
  const lists = 'bcdefgh'.split('').map((name, at) => `${name}: &${name} [${`*${'abcdefg'[at]},`.repeat(20)}]`)
  expect(problemsOf(`a: &a [${'x,'.repeat(20)}]\n${lists.join('\n')}`, {}).join('\n')).toMatch(
    /^\S+, line \d: is one too many: a file may have 50000 values$/,
  )
  expect(problemsOf('a: &a [*a]', {}).at(-1)).toMatch(/must not be nested deeper than 64$/)
})

test('an alias refers to the last node before it with that anchor', () => {
  expect(read('a: &x 1\nb: *x\nc: [&x 2, *x]\nd: *x\ne: {&k f: 1, g: *k}', {}).root).toEqual({
    a: 1,
    b: 1,
    c: [2, 2],
    d: 2,
    e: { f: 1, g: 'f' },
  })
  expect(problemsOf('a: *x\nb: &x 1', {}).join('\n')).toBe('a, line 1: has no anchor before it')
})

test('many aliases are resolved in one pass', () => {
  const { root } = read(`a: &a x\nb: [${'*a,'.repeat(20_000)}]`, {})
  expect(root.b).toHaveLength(20_000)
}, 10_000)
