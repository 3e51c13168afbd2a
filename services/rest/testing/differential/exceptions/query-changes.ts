/** Exceptions of what requests read by: what of query strings, rows and errors PostgREST has changed itself. */
import type { Answer } from '../../../../testing/client.ts'
import { aggregate, isOfDatabase, names, ofServer, says, tells } from './answers.ts'
import { codeOf, type Exception } from './exception.ts'

const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')
/** What PostgREST has changed in the versions after 12.0.2. */
export const changesOfQueries: readonly Exception[] = [
  {
    rule: 'A relation that is not known is RST205, and looked for before anything else that is planned',
    source: 'PostgREST 13, #3697',
    applies: ({ theirs, ours }) =>
      codeOf(ours) === 'RST205' &&
      (isOfDatabase(theirs) ||
        isEmptyNotFound(theirs) ||
        /^RST(105|107|108|116|118|119|122|123|20[0-4])$/.test(codeOf(theirs))),
  },
  {
    rule: 'A path that is none is RST125, with a body',
    source: 'PostgREST 13, #3906',
    parts: ['body'],
    applies: ({ theirs, ours }) => isEmptyNotFound(theirs) && codeOf(ours) === 'RST125',
  },
  {
    rule: 'The schema is looked at before the query string',
    source: 'PostgREST 12.2, #3440',
    applies: ({ theirs, ours }) => codeOf(ours) === 'RST106' && /^RST10[01]$/.test(codeOf(theirs)),
  },
  {
    rule: 'Another number of rows than one says so in other words',
    source: 'PostgREST 13, #3795',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST116' && codeOf(ours) === 'RST116',
  },
  {
    rule: 'What is can be followed by, in other words',
    source: 'PostgREST 13, #3747',
    parts: ['details'],
    applies: ({ theirs, ours }) =>
      codeOf(ours) === 'RST100' && tells(theirs, /expecting null or trilean value \(unknown, true, false\)/),
  },
  {
    rule: 'What is cannot be followed by is found at its own place',
    source: 'PostgREST 13, #3747',
    parts: ['message'],
    applies: ({ asked, theirs, ours }) => {
      const withoutPlace = ({ text }: Answer) => /"message":"(.*?)column \d+\)"/.exec(text)?.[1]
      return (
        says(asked, /is\.not\./) && withoutPlace(theirs) !== undefined && withoutPlace(theirs) === withoutPlace(ours)
      )
    },
  },
  {
    rule: 'A column that is not known is said to be so in other words',
    source: 'PostgREST 12.0.3, #3361',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST204' && codeOf(ours) === 'RST204',
  },
  {
    rule: 'Errors 21, 42P17, 53400, 54 and 55 are the server’s',
    source: 'PostgREST 12.0.3 and 12.2, #3205, #3256, #3267, #3255',
    parts: ['status'],
    applies: ({ theirs, ours }) =>
      codeOf(theirs) === codeOf(ours) && ours.status === 500 && ofServer.test(codeOf(ours)),
  },
  {
    rule: 'Aggregates in spreads are refused where aggregates are disabled',
    source: 'PostgREST 13, #3693',
    applies: ({ asked, ours }) => says(asked, /\.\.\./) && says(asked, aggregate) && codeOf(ours) === 'RST123',
  },
  {
    rule: 'What a function returns is filtered beside what is selected of it, and so of two faults another is told',
    source: 'PostgREST 13, #3965',
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') &&
      names(asked, /^select$/) &&
      [theirs, ours].every(answer => /^42/.test(codeOf(answer)) && codeOf(answer) !== '42501'),
  },
  {
    rule: 'Postgres knows what a function returns by its own name',
    source: 'PostgREST 13, #3965',
    parts: ['message', 'hint'],
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') && codeOf(theirs) === '42703' && codeOf(ours) === '42703',
  },
  {
    rule: 'A function’s name is guessed where three of four letters are right',
    source: 'PostgREST 14, #4569',
    parts: ['hint'],
    applies: ({ theirs, ours }) =>
      codeOf(theirs) === 'RST202' && codeOf(ours) === 'RST202' && tells(ours, /"hint":null/),
  },
]
