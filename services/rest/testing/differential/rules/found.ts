/** Rules about paths, schemas and embeddings. Later versions check them earlier. */
import type { Answer } from '../../../../testing/client.ts'
import { suggestion } from '../../../plan/suggestions.ts'
import { allLevels, levelsOf } from '../levels.ts'
import { isWrite, type SentRequest } from '../request.ts'
import { functions, relations } from '../resources.ts'
import { codeOf, faultOf, isDone, isOfDatabase, type Rule, refused, withFault } from './rule.ts'

const served = { api: Object.keys(relations), склад: ['дверь'] }
type Schema = keyof typeof served
const isServed = (name: string): name is Schema => name in served

/** The schema that the request names, or else the first schema. */
function schemaOf({ method, headers }: SentRequest): string {
  const name = headers[/^(GET|HEAD|OPTIONS|TRACE)$/.test(method) ? 'Accept-Profile' : 'Content-Profile']
  return name === undefined ? 'api' : Buffer.from(name, 'latin1').toString('utf8')
}

const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')

/** The function whose rows the request reads, by the relation of the rows. */
function returnedOf({ path }: SentRequest): string {
  const name = decodeURIComponent(path.slice('/rpc/'.length))
  const returned = functions[name]?.returns
  if (typeof returned === 'string') return returned
  return /^(some_pairs|one_pair)$/.test(name) ? 'pair' : name
}

/** Postgres's errors contain these names for a function's result, and for a relation that is embedded twice. */
function renamed(sent: SentRequest, theirs: Answer): Answer[] {
  const isCall = sent.path.startsWith('/rpc/')
  const text = (
    isCall
      ? theirs.text
          .replaceAll(/(?<=')pgrst_source(?=' and)|\b(pgrst_call|record|int4)(?=\.)/g, returnedOf(sent))
          .replaceAll('column _postgrest_t.', 'column rst_rows.')
      : theirs.text
  )
    // A to-many embedding is a column of its rows.
    .replace(/column \\"(\w+)\.\1\\" must/, 'column \\"$1.rst_rows\\" must')
  const alias = isOfDatabase(theirs) ? /(?<=column \\?"?)[^".]+(?=\.)/.exec(text)?.[0] : undefined
  const again =
    alias === undefined
      ? []
      : Array.from({ length: 60 }, (_, number) => text.replaceAll(alias, `rst_relation_${number}`))
  if (text === theirs.text && again.length === 0) return []
  return [...[text, ...again].map(one => ({ ...theirs, text: one })), ...hinted(sent, { ...theirs, text })]
}

/**
 * The service has all columns of a function's result; 12.0.2 has only the selected columns. So Postgres may suggest
 * another column.
 */
function hinted(sent: SentRequest, theirs: Answer): Answer[] {
  const fault = faultOf(theirs)
  if (!sent.path.startsWith('/rpc/') || fault?.code !== '42703' || fault.hint !== null) return []
  const { items, relation } = levelsOf(sent)
  const others = (relation?.columns ?? []).filter(([name]) => !items.includes(name))
  return others.map(([name]) => {
    const hint = `Perhaps you meant to reference the column "${returnedOf(sent)}.${name}".`
    return withFault(theirs, { hint })
  })
}

const isVolatile = (path: string): boolean =>
  /^\/rpc\/(all_clients|note_it|delete_notes|respond|fail|nothing|forbidden)$/.test(path)

/** The content types that writes accept. */
const taken = /^(application\/(json|x-www-form-urlencoded|vnd\.pgrst\.(object|array)\+json)|text\/csv)(;|$)/i

/** The error for a body type that is not accepted. It precedes planning. */
function untaken({ method, headers }: SentRequest): Answer | undefined {
  const type = headers['Content-Type']
  return !/^(POST|PATCH|PUT)$/.test(method) || type === undefined || taken.test(type)
    ? undefined
    : refused(415, { code: 'RST107', message: `Content-Type not acceptable: ${type}` })
}

export const ofFound: readonly Rule[] = [
  {
    rule: 'An invalid path returns RST125 with a body',
    source: ['PostgREST 13, #3906'],
    answers: ({ sent, theirs }) => {
      const isNone = /^\/(rpc\/?|[^/]+)?$/.test(sent.path) || /^\/rpc\/[^/]+$/.test(sent.path)
      const message = 'Invalid path specified in request URL'
      return !isNone && isEmptyNotFound(theirs)
        ? [{ ...theirs, ...refused(404, { code: 'RST125', message }), headers: theirs.headers }]
        : []
    },
  },
  {
    rule: 'A filter on an embedding that compares with anything but null returns RST120',
    source: ['the contract: own errors'],
    answers: ({ sent, theirs }) => {
      if (!(isDone(theirs) || isOfDatabase(theirs) || /^RST(1(05|07|15|16|22)|204)$/.test(codeOf(theirs)))) return []
      const details = 'Only is null or not is null filters are allowed on embedded resources'
      return allLevels(levelsOf(sent))
        .filter(({ prefix }) => prefix !== '' || !isWrite(sent))
        .flatMap(({ prefix, embedded, relation }) =>
          embedded.flatMap(({ name }) =>
            !relation?.columns.some(([known]) => known.replaceAll('"', '') === name) &&
            sent.query.some(
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
            untaken(sent) ??
            refused(400, { code: 'RST120', message: `Bad operator on the '${name}' embedded resource`, details }),
        )
    },
  },
  {
    rule: 'An unknown relation returns RST205 before any other planning error',
    source: ['PostgREST 13, #3697'],
    answers: ({ sent, theirs }) => {
      const [schema, name] = [schemaOf(sent), decodeURIComponent(sent.path.slice(1))]
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
        untaken(sent) ??
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
    answers: ({ sent, theirs }) => {
      const fault = faultOf(theirs)
      const [, guess] = /^Perhaps you meant to call the function [^.(]*\.([^(]*)$/.exec(String(fault?.hint)) ?? []
      const name = decodeURIComponent(sent.path.slice('/rpc/'.length))
      return fault?.code === 'RST202' && guess !== undefined && suggestion(name, [guess], 0.75) === undefined
        ? [withFault(theirs, { hint: null })]
        : []
    },
  },
  {
    rule: 'Errors name the rows of a function by their relation, and number a relation that is embedded again',
    source: ['docs/rest.md: Errors about rows that a function returns name their table'],
    answers: ({ sent, theirs }) => renamed(sent, theirs),
    // Postgres's hint suggests one of the statement's columns.
    reduces: answer =>
      codeOf(answer) === '42703' && /column \\?"?[^".]+_\d+\./.test(answer.text)
        ? withFault(answer, { hint: null })
        : undefined,
  },
  {
    rule: 'The root refuses methods other than GET, HEAD and OPTIONS before any other error',
    source: ['PostgREST 13, #3906'],
    answers: ({ sent: { path, method }, theirs }) =>
      path === '/' && theirs.status !== 401 && !/^(GET|HEAD|OPTIONS)$/.test(method)
        ? [refused(405, { code: 'RST117', message: `Unsupported HTTP method: ${method}` })]
        : [],
  },
  {
    rule: 'OPTIONS lists the methods of a function whatever its parameters',
    source: ['docs/rest.md: `OPTIONS` returns the methods of a function whatever its parameters are'],
    answers: ({ sent, theirs }) => {
      const { path, method } = sent
      const isKnown =
        (schemaOf(sent) === 'api' && decodeURIComponent(path.slice(5)) in functions) ||
        (schemaOf(sent) === 'склад' && path === '/rpc/width')
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
    answers: ({ sent, theirs }) =>
      /^RST10[06]$/.test(codeOf(theirs)) && !isServed(schemaOf(sent))
        ? [
            refused(406, {
              code: 'RST106',
              message: `Invalid schema: ${schemaOf(sent)}`,
              hint: 'Only the following schemas are exposed: api, склад',
            }),
          ]
        : [],
  },
]
