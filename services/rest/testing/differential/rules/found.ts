/** Rules of what a path, a schema or an embedding is, which later versions look for earlier. */
import type { Answer } from '../../../../testing/client.ts'
import { suggestion } from '../../../plan/suggestions.ts'
import { allLevels, levelsOf } from '../levels.ts'
import { type Asked, isWrite } from '../request.ts'
import { functions, relations } from '../resources.ts'
import { codeOf, faultOf, isDone, isOfDatabase, type Rule, refused, withFault } from './rule.ts'

const served = { api: Object.keys(relations), склад: ['дверь'] }
type Schema = keyof typeof served
const isServed = (name: string): name is Schema => name in served

/** The schema that a request names, or the first. */
function schemaOf({ method, headers }: Asked): string {
  const name = headers[/^(GET|HEAD|OPTIONS|TRACE)$/.test(method) ? 'Accept-Profile' : 'Content-Profile']
  return name === undefined ? 'api' : Buffer.from(name, 'latin1').toString('utf8')
}

const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')

/** The function whose rows are read, by the relation that they are of. */
function returnedOf({ path }: Asked): string {
  const name = decodeURIComponent(path.slice('/rpc/'.length))
  const returned = functions[name]?.returns
  if (typeof returned === 'string') return returned
  return /^(some_pairs|one_pair)$/.test(name) ? 'pair' : name
}

/** Errors of Postgres know what a function returns, and a relation that is embedded twice, by these names. */
function renamed(asked: Asked, theirs: Answer): Answer[] {
  const isCall = asked.path.startsWith('/rpc/')
  const text = (
    isCall
      ? theirs.text
          .replaceAll(/(?<=')pgrst_source(?=' and)|\b(pgrst_call|record|int4)(?=\.)/g, returnedOf(asked))
          .replaceAll('column _postgrest_t.', 'column rst_rows.')
      : theirs.text
  )
    // What a relation embeds of many is a column of its rows.
    .replace(/column \\"(\w+)\.\1\\" must/, 'column \\"$1.rst_rows\\" must')
  const alias = isOfDatabase(theirs) ? /(?<=column \\?"?)[^".]+(?=\.)/.exec(text)?.[0] : undefined
  const again =
    alias === undefined
      ? []
      : Array.from({ length: 60 }, (_, number) => text.replaceAll(alias, `rst_relation_${number}`))
  if (text === theirs.text && again.length === 0) return []
  return [...[text, ...again].map(one => ({ ...theirs, text: one })), ...hinted(asked, { ...theirs, text })]
}

/** Ours has all columns of what a function returns, and 12.0.2 those that are selected: Postgres may guess one of the others. */
function hinted(asked: Asked, theirs: Answer): Answer[] {
  const fault = faultOf(theirs)
  if (!asked.path.startsWith('/rpc/') || fault?.code !== '42703' || fault.hint !== null) return []
  const { items, relation } = levelsOf(asked)
  const others = (relation?.columns ?? []).filter(([name]) => !items.includes(name))
  return others.map(([name]) => {
    const hint = `Perhaps you meant to reference the column "${returnedOf(asked)}.${name}".`
    return withFault(theirs, { hint })
  })
}

const isVolatile = (path: string): boolean =>
  /^\/rpc\/(all_clients|note_it|delete_notes|respond|fail|nothing|forbidden)$/.test(path)

/** The types of bodies that are written. */
const taken = /^(application\/(json|x-www-form-urlencoded|vnd\.pgrst\.(object|array)\+json)|text\/csv)(;|$)/i

/** The refusal of a body type that is not accepted, which precedes planning. */
function untaken({ method, headers }: Asked): Answer | undefined {
  const type = headers['Content-Type']
  return !/^(POST|PATCH|PUT)$/.test(method) || type === undefined || taken.test(type)
    ? undefined
    : refused(415, { code: 'RST107', message: `Content-Type not acceptable: ${type}` })
}

export const ofFound: readonly Rule[] = [
  {
    rule: 'An invalid path returns RST125 with a body',
    source: ['PostgREST 13, #3906'],
    answers: ({ asked, theirs }) => {
      const isNone = /^\/(rpc\/?|[^/]+)?$/.test(asked.path) || /^\/rpc\/[^/]+$/.test(asked.path)
      const message = 'Invalid path specified in request URL'
      return !isNone && isEmptyNotFound(theirs)
        ? [{ ...theirs, ...refused(404, { code: 'RST125', message }), headers: theirs.headers }]
        : []
    },
  },
  {
    rule: 'A filter on an embedding that compares with anything but null returns RST120',
    source: ['the contract: own errors'],
    answers: ({ asked, theirs }) => {
      if (!(isDone(theirs) || isOfDatabase(theirs) || /^RST(1(05|07|15|16|22)|204)$/.test(codeOf(theirs)))) return []
      const details = 'Only is null or not is null filters are allowed on embedded resources'
      return allLevels(levelsOf(asked))
        .filter(({ prefix }) => prefix !== '' || !isWrite(asked))
        .flatMap(({ prefix, embedded, relation }) =>
          embedded.flatMap(({ name }) =>
            !relation?.columns.some(([known]) => known.replaceAll('"', '') === name) &&
            asked.query.some(
              ([key, text]) =>
                key.replaceAll('"', '') === `${prefix}${name}`.replaceAll('"', '') &&
                !/^(not\.)?is\.(null|not_null)$/i.test(text),
            )
              ? [name]
              : [],
          ),
        )
        .slice(0, 1)
        .map(
          name =>
            untaken(asked) ??
            refused(400, { code: 'RST120', message: `Bad operator on the '${name}' embedded resource`, details }),
        )
    },
  },
  {
    rule: 'An unknown relation returns RST205 before any other planning error',
    source: ['PostgREST 13, #3697'],
    answers: ({ asked, theirs }) => {
      const [schema, name] = [schemaOf(asked), decodeURIComponent(asked.path.slice(1))]
      if (
        !isServed(schema) ||
        name === '' ||
        /^rpc\/.|\/./.test(name) ||
        /.\/$/.test(name) ||
        served[schema].includes(name)
      )
        return []
      const isLater =
        isOfDatabase(theirs) ||
        isEmptyNotFound(theirs) ||
        /^RST(105|107|108|116|118|119|12[023]|20[0-4])$/.test(codeOf(theirs))
      if (!isLater) return []
      const meant = suggestion(name, served[schema], 0.75)
      const hint = meant === undefined ? null : `Perhaps you meant the table '${schema}.${meant}'`
      return [
        untaken(asked) ??
          refused(404, {
            code: 'RST205',
            message: `Could not find the table '${schema}.${name}' in the schema cache`,
            hint,
          }),
      ]
    },
  },
  {
    rule: 'A hint suggests a function only where three of four letters of its name match',
    source: ['PostgREST 14, #4569'],
    answers: ({ asked, theirs }) => {
      const fault = faultOf(theirs)
      const [, guess] = /^Perhaps you meant to call the function [^.(]*\.([^(]*)$/.exec(String(fault?.hint)) ?? []
      const name = decodeURIComponent(asked.path.slice('/rpc/'.length))
      return fault?.code === 'RST202' && guess !== undefined && suggestion(name, [guess], 0.75) === undefined
        ? [withFault(theirs, { hint: null })]
        : []
    },
  },
  {
    rule: 'Errors name the rows of a function by their relation, and number a relation that is embedded again',
    source: ['docs/rest.md: Rows that a function returns go by the name of their relation'],
    answers: ({ asked, theirs }) => renamed(asked, theirs),
    // Which column was meant Postgres guesses of those that a statement has there.
    reduces: answer =>
      codeOf(answer) === '42703' && /column \\?"?[^".]+_\d+\./.test(answer.text)
        ? withFault(answer, { hint: null })
        : undefined,
  },
  {
    rule: 'The root refuses methods other than GET, HEAD and OPTIONS before any other error',
    source: ['PostgREST 13, #3906'],
    answers: ({ asked: { path, method }, theirs }) =>
      path === '/' && theirs.status !== 401 && !/^(GET|HEAD|OPTIONS)$/.test(method)
        ? [refused(405, { code: 'RST117', message: `Unsupported HTTP method: ${method}` })]
        : [],
  },
  {
    rule: 'OPTIONS lists the methods of a function whatever its parameters',
    source: ['docs/rest.md: `OPTIONS` names the methods of a function whatever its parameters'],
    answers: ({ asked, theirs }) => {
      const { path, method } = asked
      const isKnown =
        (schemaOf(asked) === 'api' && decodeURIComponent(path.slice(5)) in functions) ||
        (schemaOf(asked) === 'склад' && path === '/rpc/width')
      if (method !== 'OPTIONS' || !/^RST(107|122|202|203)$/.test(codeOf(theirs)) || !isKnown) return []
      const { 'content-type': _, ...headers } = theirs.headers
      return [
        {
          ...theirs,
          status: 200,
          text: '',
          headers: { ...headers, allow: isVolatile(path) ? 'OPTIONS,POST' : 'OPTIONS,GET,HEAD,POST' },
        },
      ]
    },
  },
  {
    rule: 'An unknown schema is checked before the query string; the message names it, and the hint the served schemas',
    source: ['PostgREST 14 and 12.2, #4089, #3440'],
    answers: ({ asked, theirs }) =>
      /^RST10[06]$/.test(codeOf(theirs)) && !isServed(schemaOf(asked))
        ? [
            refused(406, {
              code: 'RST106',
              message: `Invalid schema: ${schemaOf(asked)}`,
              hint: 'Only the following schemas are exposed: api, склад',
            }),
          ]
        : [],
  },
]
