/** A summary of removed messages: topics, tables and tools. Rules make the summary; a model can add a description. */
import { textWithResults, toolMentions, wordsOf } from './message.ts'
import type { Message } from './request.ts'

export type Summary = {
  readonly topics: readonly string[]
  readonly tables: readonly string[]
  readonly tools: readonly string[]
  readonly description: string
}

export const emptySummary: Summary = { topics: [], tables: [], tools: [], description: '' }

const maximumTopics = 8
const maximumTables = 20
const maximumTools = 20
export const maximumDescription = 1_000
/** How many characters of a message are searched for topics. */
const readCharacters = 20_000

const stopWords = new Set(
  `about above after again against also another because been before being below between both cannot could does doing done down during each error every
  first from further give going have having here hers into itself just know last like list look make many might more most much need only other
  over please same show should some such sure tell than thank thanks that their them then there these they this those through time under
  until using very want well were what when where which while will with without would your yours`.split(/\s+/),
)

const tableName =
  /\b(?:from|join|into|update|table)\s+(?:only\s+|if\s+(?:not\s+)?exists\s+)?((?:"[^"\n]{1,63}"|[a-z_][\w$]{0,62})(?:\.(?:"[^"\n]{1,63}"|[a-z_][\w$]{0,62}))?)/gi
const tableArgument = /"(?:table|table_name)"\s*:\s*"([^"\\\n]{1,130})"/g
const noTables = new Set([
  'the',
  'a',
  'an',
  'this',
  'that',
  'it',
  'my',
  'our',
  'your',
  'select',
  'lateral',
  'unnest',
  'set',
  'there',
  'here',
  'each',
  'all',
])

const isSql = /\b(select|insert\s+into|update\s+\S+\s+set|delete\s+from|create\s+table|alter\s+table|drop\s+table)\b/i

/** Returns the most frequent words. Of equally frequent words, the earlier one is first. */
function commonest(words: Iterable<string>, limit: number): string[] {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .slice(0, limit)
    .map(([word]) => word)
}

const topicsOf = (messages: readonly Message[]): string[] =>
  commonest(
    messages
      .filter(({ role }) => role === 'user')
      .flatMap(
        message =>
          wordsOf(message)
            .slice(0, readCharacters)
            .toLowerCase()
            .match(/\p{L}[\p{L}\p{N}_]{3,40}/gu) ?? [],
      )
      .filter(word => !stopWords.has(word)),
    maximumTopics,
  )

function tablesOf(messages: readonly Message[]): string[] {
  const names = messages.flatMap(message => {
    // Most statements are inside JSON.
    const text = textWithResults(message).slice(0, readCharacters).replaceAll('\\"', '"')
    const named = [...text.matchAll(tableArgument)].map(([, name = '']) => name)
    const inSql = isSql.test(text) ? [...text.matchAll(tableName)].map(([, name = '']) => name) : []
    return [...named, ...inSql.filter(name => !noTables.has(name.toLowerCase()))]
  })
  return commonest(names, maximumTables)
}

const toolsOf = (messages: readonly Message[]): string[] =>
  commonest(
    messages.flatMap(toolMentions).flatMap(({ name }) => (name === undefined ? [] : [name])),
    maximumTools,
  )

const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

export function summarise(messages: readonly Message[]): Summary {
  const [topics, tables, tools] = [topicsOf(messages), tablesOf(messages), toolsOf(messages)]
  const parts = [
    `${plural(messages.length, 'earlier message')} left out`,
    ...(topics.length > 0 ? [`about ${topics.join(', ')}`] : []),
  ]
  return { topics, tables, tools, description: `${parts.join(', ')}.`.slice(0, maximumDescription) }
}

/** Variants of the summary, from complete to shortest. */
export const summaryTexts = ({ topics, tables, tools, description }: Summary): readonly string[] => {
  const lists = [
    ...(tables.length > 0 ? [`Tables: ${tables.join(', ')}.`] : []),
    ...(tools.length > 0 ? [`Tools used: ${tools.join(', ')}.`] : []),
  ]
  const about = topics.length > 0 ? [`About ${topics.slice(0, 3).join(', ')}.`] : []
  return [[description, ...lists], [description], about]
    .filter(parts => parts.length > 0)
    .map(parts => `[Compressed context: ${parts.join(' ')}]`)
}
