/**
 * Every error that has the service's own text, by code: status, texts and headers. All other error texts are Postgres's
 * or come from database functions (database.ts). Statuses and texts are those of PostgREST 14 (its docs, "Errors"); the
 * codes have RST instead of PGRST.
 */
import { bearerChallenge } from '../../authentication/challenge.ts'
import type { ClaimsFault, Undecodable } from '../../authentication/errors.ts'
import type { UnreadRequest } from '../../http/message.ts'
import { type Json, RestError, retryAfter } from './rest-error.ts'

// Group 0: the database connection, and memory.

export const connectionLost = (details: string, cause?: unknown): RestError =>
  unavailable('RST000', 'Database connection error.', details, cause)

export const databaseClientFailed = (details: string, cause?: unknown): RestError =>
  unavailable('RST001', 'Database client error. Retrying the connection.', details, cause)

/** The client is unauthenticated, so only the log contains the reason. */
export const schemaNotLoaded = (): RestError =>
  unavailable('RST002', 'Could not query the database for the schema cache. Retrying.')

export const acquisitionTimedOut = (cause?: unknown): RestError =>
  new RestError({ status: 504, code: 'RST003', message: 'Timed out acquiring connection from connection pool.' }, cause)

/** The code is Postgres's code for exhausted resources. */
export const memoryExhausted = (): RestError =>
  unavailable('53000', 'The memory for bodies of requests and responses is exhausted')

function unavailable(code: string, message: string, details: string | null = null, cause?: unknown): RestError {
  return new RestError({ status: 503, code, message, details, headers: [retryAfter] }, cause)
}

// Group 1: the request alone.

/**
 * A syntax error: the character position from 1, and what the parser expected. PostgREST also counts lines; here, a
 * text has one line.
 */
export const unparsable = (what: string, text: string, column: number, details: string): RestError =>
  invalidQuery(`"failed to parse ${what} (${text})" (line 1, column ${column})`, details)

export const tooManyParameters = (maximum: number): RestError =>
  invalidQuery(`A query string has at most ${maximum} parameters`)

/** Postgres text cannot contain this character, and it terminates names in the protocol. */
export const nulInQuery = (): RestError => invalidQuery('A query string cannot contain the character NUL')

export const tooManyValues = (maximum: number): RestError => invalidQuery(`A request has at most ${maximum} values`)

export const tooManyEmbeddings = (maximum: number): RestError =>
  invalidQuery(`A request embeds at most ${maximum} relations`)

function invalidQuery(message: string, details: string | null = null): RestError {
  return new RestError({ status: 400, code: 'RST100', message, details })
}

export const functionTakesNo = (method: string): RestError =>
  new RestError({ status: 405, code: 'RST101', message: `Cannot use the ${method} method on RPC` })

export const invalidJson = (): RestError => invalidBody('Empty or invalid json')

export const jsonTooDeep = (maximum: number): RestError =>
  invalidBody('Empty or invalid json', `JSON may nest at most ${maximum} levels deep`)

export const unevenKeys = (): RestError => invalidBody('All object keys must match')

export const emptyCsv = (): RestError => invalidBody('Empty or invalid csv')

export const unevenCsv = (): RestError => invalidBody('All lines must have same number of fields')

export const csvTooWide = (maximum: number): RestError => invalidBody(`A line of CSV has at most ${maximum} fields`)

export const csvQuoteOpen = (): RestError => invalidBody('A quoted field of CSV has no closing quote')

export const csvQuoteFollowed = (): RestError =>
  invalidBody('A quoted field of CSV must be followed by a comma or a line break')

/** The service cannot parse the body. */
function invalidBody(message: string, details: string | null = null): RestError {
  return new RestError({ status: 400, code: 'RST102', message, details })
}

export const bodyTooLarge = (maximumBytes: number): RestError =>
  new RestError({ status: 413, code: 'RST102', message: `The request body is larger than ${maximumBytes} bytes` })

/** The service could not parse the received bytes as a request. */
export function requestUnread(why: UnreadRequest, maximumHeaderBytes: number): RestError {
  switch (why) {
    case 'head too large':
      return new RestError({
        status: 431,
        code: 'RST140',
        message: `The head of the request, including the URL, is larger than ${maximumHeaderBytes} bytes`,
      })
    case 'too slow':
      return new RestError({ status: 408, code: 'RST141', message: 'The request was not received in time' })
    case 'malformed':
      return new RestError({ status: 400, code: 'RST142', message: 'The request is not HTTP/1.1' })
  }
}

export const rangeReversed = (): RestError =>
  rangeNotSatisfiable('The lower boundary must be lower than or equal to the upper boundary in the Range header.')

export const limitNegative = (): RestError => rangeNotSatisfiable('Limit should be greater than or equal to zero.')

export const offsetBeyondRows = (offset: number, rows: number): RestError =>
  rangeNotSatisfiable(`An offset of ${offset} was requested, but there are only ${rows} rows.`, [
    ['Content-Range', `*/${rows}`],
  ])

function rangeNotSatisfiable(details: string, headers: [string, string][] = []): RestError {
  return new RestError({ status: 416, code: 'RST103', message: 'Requested range not satisfiable', details, headers })
}

export const putWithoutKey = (): RestError =>
  new RestError({
    status: 405,
    code: 'RST105',
    message: "Filters must include all and only primary key columns with 'eq' operators",
  })

export const schemaNotServed = (name: string, served: readonly string[]): RestError =>
  new RestError({
    status: 406,
    code: 'RST106',
    message: `Invalid schema: ${name}`,
    hint: `Only the following schemas are exposed: ${served.join(', ')}`,
  })

export const contentTypeRefused = (name: string): RestError =>
  new RestError({ status: 415, code: 'RST107', message: `Content-Type not acceptable: ${name}` })

export const notAcceptable = (mediaTypes: readonly string[]): RestError =>
  new RestError({
    status: 406,
    code: 'RST107',
    message: `None of these media types are available: ${mediaTypes.join(', ')}`,
  })

/** `alias`: the embedding's name, if the request must use aliases. */
export const notEmbedded = (name: string, alias?: string): RestError =>
  new RestError({
    status: 400,
    code: 'RST108',
    message: `'${name}' is not an embedded resource in this request`,
    details: alias === undefined ? null : 'Target names are not allowed in filters if they have an alias',
    hint:
      alias === undefined
        ? `Verify that '${name}' is included in the 'select' query parameter.`
        : `Change '${name}' to '${alias}' in filters, orders or limits.`,
  })

/** Errors in settings that a database function made. */
export const invalidResponseHeaders = (): RestError =>
  new RestError({
    status: 500,
    code: 'RST111',
    message: 'response.headers guc must be a JSON array composed of objects with a single key and a string value',
  })

export const invalidResponseStatus = (): RestError =>
  new RestError({ status: 500, code: 'RST112', message: 'response.status guc must be a valid status code' })

export const putWithLimit = (): RestError =>
  new RestError({
    status: 400,
    code: 'RST114',
    message: 'limit/offset querystring parameters are not allowed for PUT',
  })

export const putOfAnotherRow = (): RestError =>
  new RestError({
    status: 400,
    code: 'RST115',
    message: 'Payload values do not match URL in primary key column(s)',
  })

export const notSingular = (rows: number): RestError =>
  new RestError({
    status: 406,
    code: 'RST116',
    message: 'Cannot coerce the result to a single JSON object',
    details: `The result contains ${rows} rows`,
  })

export const unsupportedMethod = (method: string): RestError =>
  new RestError({ status: 405, code: 'RST117', message: `Unsupported HTTP method: ${method}` })

export const notOrderable = (source: string, relation: string): RestError =>
  new RestError({
    status: 400,
    code: 'RST118',
    message: `A related order on '${relation}' is not possible`,
    details: `'${source}' and '${relation}' do not form a many-to-one or one-to-one relationship`,
  })

export const unacceptableFilter = (name: string): RestError =>
  new RestError({
    status: 400,
    code: 'RST120',
    message: `Bad operator on the '${name}' embedded resource`,
    details: 'Only is null or not is null filters are allowed on embedded resources',
  })

export const invalidRaiseMessage = (sqlState: string, message: string): RestError =>
  invalidRaise(
    sqlState,
    `Invalid JSON value for MESSAGE: '${message}'`,
    "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.",
  )

export const invalidRaiseDetail = (sqlState: string, detail: string | null): RestError =>
  invalidRaise(
    sqlState,
    detail === null ? 'DETAIL is missing in the RAISE statement' : `Invalid JSON value for DETAIL: '${detail}'`,
    "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
  )

/** A function raised an invalid response. */
function invalidRaise(sqlState: string, details: string, hint: string): RestError {
  const message = `Could not parse JSON in the "RAISE SQLSTATE '${sqlState}'" error`
  return new RestError({ status: 500, code: 'RST121', message, details, hint })
}

export const invalidPreferences = (preferences: readonly string[]): RestError =>
  new RestError({
    status: 400,
    code: 'RST122',
    message: 'Invalid preferences given with handling=strict',
    details: `Invalid preferences: ${preferences.join(', ')}`,
  })

export const aggregatesDisabled = (): RestError =>
  new RestError({ status: 400, code: 'RST123', message: 'Use of aggregate functions is not allowed' })

export const tooManyAffected = (rows: number): RestError =>
  new RestError({
    status: 400,
    code: 'RST124',
    message: 'Query result exceeds max-affected preference constraint',
    details: `The query affects ${rows} rows`,
  })

export const invalidPath = (): RestError =>
  new RestError({ status: 404, code: 'RST125', message: 'Invalid path specified in request URL' })

export const rootDisabled = (): RestError =>
  new RestError({ status: 404, code: 'RST126', message: 'Root endpoint metadata is disabled' })

export const aggregateInSpread = (): RestError =>
  new RestError({
    status: 400,
    code: 'RST127',
    message: 'Feature not implemented',
    details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
  })

export const affectedOfNoSet = (): RestError =>
  new RestError({
    status: 400,
    code: 'RST128',
    message: 'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
  })

// Group 2: the request and the schema cache. A name is printed with its schema if it has one. `meant`: a guess.

type Names = { readonly schema: string; readonly name: string }

/** `using`: the client's disambiguation hint. */
export function relationshipNotFound(
  { schema, name }: Names,
  target: string,
  using: string | undefined,
  guess: { readonly meant: string; readonly wrong: string } | undefined,
): RestError {
  return new RestError({
    status: 400,
    code: 'RST200',
    message: `Could not find a relationship between '${name}' and '${target}' in the schema cache`,
    details:
      `Searched for a foreign key relationship between '${name}' and '${target}'` +
      `${using === undefined ? '' : ` using the hint '${using}'`} in the schema '${schema}', but no matches were found.`,
    hint: guess === undefined ? null : `Perhaps you meant '${guess.meant}' instead of '${guess.wrong}'.`,
  })
}

/** `candidates`: what the client can write instead of the target. */
export function ambiguousRelationship(
  source: string,
  target: string,
  found: Json,
  candidates: readonly string[],
): RestError {
  const listed = candidates.map(candidate => `'${candidate}'`).join(', ')
  return new RestError({
    status: 300,
    code: 'RST201',
    message: `Could not embed because more than one relationship was found for '${source}' and '${target}'`,
    details: found,
    hint: `Try changing '${target}' to one of the following: ${listed}. Find the desired relationship in the 'details' key.`,
  })
}

/** `called`: the call's arguments. `searched`: the search criteria, if known. */
export function functionNotFound(
  { schema, name }: Names,
  { called = '', searched, meant }: { called?: string; searched?: string | undefined; meant?: string | undefined } = {},
): RestError {
  return new RestError({
    status: 404,
    code: 'RST202',
    message: `Could not find the function ${schema}.${name}${called} in the schema cache`,
    details: searched === undefined ? null : `Searched for ${searched}, but no matches were found in the schema cache.`,
    hint: meant === undefined ? null : `Perhaps you meant to call the function ${meant}`,
  })
}

export const ambiguousFunction = (signatures: readonly string[]): RestError =>
  new RestError({
    status: 300,
    code: 'RST203',
    message: `Could not choose the best candidate function between: ${signatures.join(', ')}`,
    hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
  })

export const columnNotFound = (table: string, column: string): RestError =>
  new RestError({
    status: 400,
    code: 'RST204',
    message: `Could not find the '${column}' column of '${table}' in the schema cache`,
  })

export const tableNotFound = ({ schema, name }: Names, meant: string | undefined): RestError =>
  new RestError({
    status: 404,
    code: 'RST205',
    message: `Could not find the table '${schema}.${name}' in the schema cache`,
    hint: meant === undefined ? null : `Perhaps you meant the table '${schema}.${meant}'`,
  })

// Group 3: authentication. No text contains a part of a token, of a key or of a claim's value.

/** The client sent a token, but the configuration has no secret, so the fault is the server's. */
export const secretMissing = (): RestError =>
  new RestError({ status: 500, code: 'RST300', message: 'Server lacks JWT secret' })

export function tokenUndecodable(reason: Undecodable): RestError {
  const { message, details = null } = describeUndecodable(reason)
  return new RestError({
    status: 401,
    code: 'RST301',
    message,
    details,
    headers: [bearerChallenge({ error: 'invalid_token', error_description: message })],
  })
}

/** The client sent no token, and there is no anonymous role. */
export const anonymousRefused = (): RestError =>
  new RestError({
    status: 401,
    code: 'RST302',
    message: 'Anonymous access is disabled',
    headers: [bearerChallenge()],
  })

export function claimsRefused(fault: ClaimsFault): RestError {
  const message = describeFault(fault)
  return new RestError({
    status: 401,
    code: 'RST303',
    message,
    headers: [bearerChallenge({ error: 'invalid_token', error_description: message })],
  })
}

function describeUndecodable(reason: Undecodable): { message: string; details?: string } {
  switch (reason.kind) {
    case 'empty':
      return { message: 'Empty JWT is sent in Authorization header' }
    case 'parts':
      return { message: `Expected 3 parts in JWT; got ${reason.count}` }
    case 'malformed':
      return { message: 'JWT cryptographic operation failed' }
    case 'unsecured':
      return {
        message: 'Wrong or unsupported encoding algorithm',
        details: "JWT is unsecured but expected 'alg' was not 'none'",
      }
    case 'no suitable key':
      return {
        message: 'No suitable key or wrong key type',
        details: 'No suitable key was found to decode the JWT',
      }
    case 'not verified':
      return {
        message: 'No suitable key or wrong key type',
        details: 'None of the keys was able to decode the JWT',
      }
  }
}

function describeFault(fault: ClaimsFault): string {
  switch (fault.kind) {
    case 'not an object':
      return 'Parsing claims failed'
    case 'not a number':
      return `The JWT '${fault.claim}' claim must be a number`
    case 'expired':
      return 'JWT expired'
    case 'not yet valid':
      return 'JWT not yet valid'
    case 'issued in the future':
      return 'JWT issued at future'
    case 'audience of a wrong type':
      return "The JWT 'aud' claim must be a string or an array of strings"
    case 'other audience':
      return 'JWT not in audience'
    case 'no role name':
      return 'The role in the JWT is not the name of a role'
  }
}

// Group B: errors that PostgREST does not have.

export const tooManyAtOnce = (role: string, maximum: number): RestError =>
  new RestError({
    status: 429,
    code: 'RSTB00',
    message: `Too many requests of the role '${role}' at once`,
    details: `Its limit in role-limits is concurrency=${maximum}`,
    headers: [retryAfter],
  })

export const tooManyRows = (role: string, maximum: number): RestError =>
  new RestError({
    status: 400,
    code: 'RSTB01',
    message: `The request has more rows than allowed for the role '${role}'`,
    details: `Its limit in role-limits is rows=${maximum}`,
    hint: 'Request fewer rows with filters, or with limit and offset.',
  })

/** The planned cost could reveal data that the role may not see, so the text does not contain it. */
export const planTooCostly = (role: string, maximum: number): RestError =>
  new RestError({
    status: 400,
    code: 'RSTB02',
    message: `The planned cost of the request is above the limit of the role '${role}'`,
    details: `Its limit in role-limits is cost=${maximum}`,
    hint: 'Filter or order by columns that have an index, or embed less.',
  })

/** The reason why keyset pagination is impossible for a request. */
export const keysetRefused = (details: string): RestError =>
  new RestError({ status: 400, code: 'RSTB10', message: 'Keyset pagination is not possible for this request', details })

export const cursorUnreadable = (): RestError =>
  new RestError({ status: 400, code: 'RSTB11', message: 'The cursor is invalid' })

export const cursorOfAnother = (): RestError =>
  new RestError({
    status: 400,
    code: 'RSTB12',
    message: 'The cursor belongs to another request',
    hint: 'Use the link unchanged, or start again: only limit may change in the request.',
  })

export const cursorTooLong = (maximum: number): RestError =>
  new RestError({
    status: 400,
    code: 'RSTB13',
    message: `The cursor would be longer than ${maximum} characters`,
    hint: 'Order by columns with shorter values.',
  })

export const batchWrong = (): RestError => invalidBatch('The body must be a list of requests, in JSON')

export const batchTooLong = (maximum: number): RestError => invalidBatch(`A batch has at most ${maximum} requests`)

export const batchAnswerTooLarge = (maximumBytes: number): RestError =>
  invalidBatch(`The responses of a batch have at most ${maximumBytes} bytes`)

/** The error of one request in the batch. */
export const batchEntryWrong = (details: string): RestError => invalidBatch(details)

function invalidBatch(details: string): RestError {
  return new RestError({ status: 400, code: 'RSTB20', message: 'The batch cannot be run', details })
}

export const batchUnsigned = (maximumBytes: number): RestError =>
  new RestError({
    status: 413,
    code: 'RSTB21',
    message: `A batch of more than ${maximumBytes} bytes, or of unknown length, needs a token`,
  })

/** The error and index of the batch's refused request. */
export const ofRequest = (request: number, error: RestError): RestError =>
  new RestError(
    {
      status: error.status,
      ...(error.statusText === undefined ? {} : { statusText: error.statusText }),
      code: error.code,
      message: error.message,
      details: error.details,
      hint: error.hint,
      headers: error.headers,
      request,
    },
    error.cause,
  )

// Group X: unexpected errors. The response contains no details.

export const internalError = (cause: unknown): RestError =>
  new RestError({ status: 500, code: 'RSTX00', message: 'Internal error' }, cause)
