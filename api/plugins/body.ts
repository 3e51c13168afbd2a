/**
 * Request bodies: JSON in UTF-8, without encoding, at most 1 MiB, with a limited number of fields and without duplicate
 * keys. An empty body counts as missing, because clients send `Content-Type` with a DELETE too.
 */
import { isUtf8 } from 'node:buffer'
import { hasBackslashKey } from '../backslash-keys.ts'
import type { App } from '../context.ts'
import { duplicateKey } from '../duplicate-keys.ts'
import { ApiError, badRequest } from '../errors.ts'
import { charsetsOf } from '../headers.ts'
import { excessOf } from '../json-size.ts'
import { renderPath } from '../validation.ts'

export const bodyLimit = 1024 * 1024

/** The maximum number of path steps in an error message. For a deeper path, the message has only the key. */
const longestPath = 16

function refusalOfDuplicates(text: string): ApiError | undefined {
  const path = duplicateKey(text)
  if (path === undefined) return undefined
  const named = renderPath(path.length > longestPath ? path.slice(-1) : path)
  return badRequest(`${named}: duplicate field in one object`)
}

/** Distinguishes two errors for which the parser uses the same message. */
function refusalOfUnparsed(text: string): ApiError {
  try {
    JSON.parse(text)
  } catch {
    return badRequest('body: must be valid JSON')
  }
  return badRequest('body: unknown field __proto__ or constructor.prototype')
}

const isUtf8Charset = (charset: string): boolean => charset === 'utf-8' || charset === 'utf8'

export function useJsonBodies(app: App): void {
  // Refuses `__proto__` and `constructor.prototype`, which no field of the API uses.
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer', bodyLimit }, (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    const { 'content-encoding': encoding = 'identity' } = request.headers
    if (encoding.toLowerCase() !== 'identity')
      return done(new ApiError(415, 'Content-Encoding: not supported; send the body without an encoding'), undefined)
    if (!charsetsOf(request.headers['content-type']).every(isUtf8Charset))
      return done(new ApiError(415, 'Content-Type: the charset of JSON must be utf-8'), undefined)
    if (!isUtf8(body)) return done(badRequest('body: must be UTF-8'), undefined)
    const excess = excessOf(body)
    if (excess !== undefined) return done(badRequest(`body: ${excess}`), undefined)
    const text = body.toString('utf8')
    if (hasBackslashKey(text)) return done(badRequest('body: unknown field with a backslash in its name'), undefined)
    parse(request, text, (error, value) => {
      if (error !== null && error !== undefined) return done(refusalOfUnparsed(text), undefined)
      done(refusalOfDuplicates(text) ?? null, value)
    })
  })
}
