/**
 * Part of `make check`. Reports replaced words in comments, messages, test titles, test tables and documents, each with
 * the word to use instead. docs/architecture.md lists our own words that remain.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Replaced words, each with the words to use instead. Matches whole words, case-insensitively. */
const replaced: Readonly<Record<string, string>> = {
  'whoever|whomever': 'a client that, a user who',
  // `nobody` in backticks or in SQL is a name.
  '(?<!`|ROLE |postgres or )(?:nobody|somebody|anybody)': 'no client, another client, a user: name the actor',
  '(?:is|are|was|were) told': 'reads, is notified, is reported',
  // After a dot, a slash or a quote it is a name.
  "(?<![./'`])asked": 'requested, desired, queried',
  'on its way': 'in progress',
  'by and by': 'later',
  'in vain': 'without success',
  'in force': 'applied, valid',
  '(?:is|are|was|were) had': 'exists, is read',
  'lets? in': 'accepts, admits',
  anew: 'again',
  mend: 'fix',
  mended: 'fixed',
  peril: 'risk',
  'errands?': 'background job',
  entomb: 'delete',
  unmade: 'not created',
  hindrance: 'what blocks',
  strangers: 'other clients, other tenants',
}

const comments = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*/
/** Comments of shell, YAML, Python and Dockerfiles. Their strings are not checked. */
const hashComments = /(?<=^|\s)#.*/gm
const titles = /\b(?:test|it|describe)(?:\.\w+)*\(\s*'[^'\n]*'/
/** The first text of a row in a test table. */
const rows = /(?<=^ +\[\s*)'[^'\n]* [^'\n]*'(?=,)/
/** Text that contains a space, because such text is usually a message and not a name. */
const messages = /'[^'\n]* [^'\n]*'|"[^"\n]* [^"\n]*"|`[^`\n]* [^`\n]*`/
const inTests = new RegExp([comments, titles, rows].map(({ source }) => source).join('|'), 'gm')
const inProduct = new RegExp([comments, messages].map(({ source }) => source).join('|'), 'gm')
const isTest = (path: string): boolean => /\.test\.tsx?$|(^|\/)(testing|mutants|e2e|bench)\//.test(path)

const textIn = (path: string): RegExp => {
  if (!/\.(?:tsx?|mjs|css|tpl)$/.test(path)) return hashComments
  return isTest(path) ? inTests : inProduct
}

/** Rows that are clear only together with the previous row. */
const continued = /^( +\[\s*)'(?:and|but|nor) [^'\n]*'(?=,)/gm

const prose = (path: string, text: string): string => {
  if (path.endsWith('.md'))
    return text.replace(/^(```[\s\S]*?^```|( {4}|\t).*)$/gm, match => match.replace(/[^\n]/g, ' '))
  // Replaces everything else by spaces, so that line numbers do not change.
  let out = ''
  let end = 0
  for (const match of text.matchAll(textIn(path))) {
    out += text.slice(end, match.index).replace(/[^\n]/g, ' ') + match[0]
    end = match.index + match[0].length
  }
  return out
}

type Finding = { line: number; word: string; instead: string }

/** Finds replaced words in the prose of one file. */
function findingsIn(path: string, text: string): Finding[] {
  const lines = prose(path, text).split('\n')
  const lineAt = (index: number): number => text.slice(0, index).split('\n').length
  const ofRows = path.endsWith('.test.ts')
    ? [...text.matchAll(continued)].map(match => ({
        line: lineAt(match.index + match[0].indexOf("'")),
        word: match[0].trim(),
        instead: 'a title that says by itself what the row tests',
      }))
    : []
  const ofWords = Object.entries(replaced).flatMap(([words, instead]) => {
    const pattern = new RegExp(`\\b(?:${words})\\b`, 'i')
    return lines.flatMap((line, index) => {
      const word = pattern.exec(line)?.[0]
      return word === undefined ? [] : [{ line: index + 1, word, instead }]
    })
  })
  return [...ofRows, ...ofWords]
}

if (import.meta.main) {
  const included = ['ts', 'tsx', 'mjs', 'css', 'md', 'sh', 'py', 'yaml', 'tpl', 'Dockerfile'].map(end => `*${end}`)
  const paths = execFileSync('git', ['ls-files', ...included, 'Makefile', '.ci/run', ':!.ci/prose.ts'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  let count = 0
  for (const path of paths.split('\n').filter(path => path !== '')) {
    for (const { line, word, instead } of findingsIn(path, readFileSync(path, 'utf8'))) {
      console.error(`${path}:${line}: "${word}": write ${instead}`)
      count += 1
    }
  }
  if (count > 0) process.exitCode = 1
}
