/**
 * Entity tags and conditional requests (RFC 9110, sections 8.8.3 and 13). The tag of a response is a hash of its body,
 * so the tag changes if and only if the body changes.
 */
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type EntityTags, namesStrongly, namesWeakly, readEntityTags } from '../values/entity-tags.ts'
import { badRequest, preconditionFailed } from './errors.ts'

/** The tag is strong: equal tags mean equal bytes. */
export const entityTag = (body: string): string => `"${hash('sha256', body, 'base64url').slice(0, 27)}"`

/** Whether the response to a read is 304. An unreadable list matches nothing. */
export function isNotModified({ 'if-none-match': value }: IncomingHttpHeaders, tag: string): boolean {
  const tags = value === undefined ? undefined : readEntityTags(value)
  return tags !== undefined && namesWeakly(tags, tag)
}

/**
 * The precondition of a write. It is checked on the object as it is written, against the bodies that reads of the
 * object return now. @throws ApiError 412
 */
type Precondition = (bodies: () => Promise<readonly string[]>) => Promise<void>

function listOf(name: string, value: string | undefined): EntityTags | undefined {
  if (value === undefined) return undefined
  const list = readEntityTags(value)
  if (list === undefined) throw badRequest(`${name}: must be * or a list of entity tags, each in double quotes`)
  return list
}

/** Returns undefined if the write has no precondition. @throws ApiError 400 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const wanted = listOf('If-Match', headers['if-match'])
  const unwanted = listOf('If-None-Match', headers['if-none-match'])
  if (wanted === undefined && unwanted === undefined) return undefined
  return async bodies => {
    const tags = (await bodies()).map(entityTag)
    if (wanted !== undefined && !tags.some(tag => namesStrongly(wanted, tag)))
      throw preconditionFailed('If-Match: the object has changed: read it again, then decide')
    if (unwanted !== undefined && tags.some(tag => namesWeakly(unwanted, tag)))
      throw preconditionFailed('If-None-Match: the object matches one of the entity tags')
  }
}
