/** What the judge excuses by our documentation, our documentation tells users, in the words that the exception quotes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { translations } from '../translations.ts'
import { ofQueries } from './queries.ts'
import { changesOfQueries } from './query-changes.ts'
import { unanswered } from './unanswered.ts'
import { ofWrites } from './writes.ts'

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/rest.md'), 'utf8')
const different = page
  .slice(page.indexOf('## What is different'), page.indexOf('## Beyond PostgREST'))
  .replaceAll(/\s+/g, ' ')

test.each([...changesOfQueries, ...ofQueries, ...ofWrites, ...translations, ...unanswered])('$source', ({ source }) => {
  const [where, words] = [source.slice(0, source.indexOf(':')), source.slice(source.indexOf(':') + 2)]
  if (where === 'docs/rest.md') expect(different).toContain(words)
  else
    expect(source).toMatch(
      /^(the contract: \w|PostgREST 1[234](\.\d+){0,2}( and 1[234](\.\d+){0,2})?, (#\d+)(, #\d+| and #\d+)*$)/,
    )
})
