/** Reads request bodies that must be JSON. */
import { isUtf8 } from 'node:buffer'
import type { IncomingBody, RequestHead } from './message.ts'
import { isContentType, readBody } from './read-body.ts'

/** `another type`: Content-Type is missing or is not JSON. */
export class JsonBodyError extends Error {
  readonly fault: 'another type' | 'not UTF-8' | 'not JSON'

  constructor(fault: JsonBodyError['fault']) {
    super(fault)
    this.name = 'JsonBodyError'
    this.fault = fault
  }
}

/**
 * Returns null if there is no body.
 * @throws JsonBodyError, HttpError
 */
export async function readJsonBody(
  { headers }: RequestHead,
  body: IncomingBody,
  maximumBytes?: number,
): Promise<unknown> {
  if (body.length === 0) return null
  if (!isContentType(headers['content-type'], 'application/json')) throw new JsonBodyError('another type')
  const bytes = await readBody(body, maximumBytes)
  if (bytes.length === 0) return null
  if (!isUtf8(bytes)) throw new JsonBodyError('not UTF-8')
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new JsonBodyError('not JSON')
  }
}
