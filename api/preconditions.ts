/**
 * Entity tags and conditional requests (RFC 9110, sections 8.8.3 and 13): the tag of an answer is made of its body, so that one
 * changes when, and only when, the other does.
 */
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { badRequest, preconditionFailed } from './errors.ts'

/** Strong: the same tag is the same bytes. */
export const entityTag = (body: string): string => `"${hash('sha256', body, 'base64url').slice(0, 27)}"`

/** `*`, or tags as they stand in a header, each with its quotes; a weak one with its W/ before them. */
type TagList = '*' | readonly string[]

/** As a list is to be written, for the API's description; empty items between commas are read, too. */
export const entityTagsPattern = /^([*]|(W[/])?"[!#-~]*"(, *(W[/])?"[!#-~]*")*)$/

/** Space can be taken in one way only: in two, a header full of it would be tried in a hundred million. */
const listItem = /[ \t]*(?:((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?:,|$)/y

/** Undefined where it is no list of entity tags. */
export function parseTags(value: string): TagList | undefined {
  if (value.trim() === '*') return '*'
  const tags: string[] = []
  listItem.lastIndex = 0
  while (listItem.lastIndex < value.length) {
    const found = listItem.exec(value)
    if (found === null) return undefined
    if (found[1] !== undefined) tags.push(found[1])
  }
  return tags.length === 0 ? undefined : tags
}

const opaque = (tag: string): string => tag.replace(/^W\//, '')

/** By strong comparison: a weak tag is none. */
const matches = (list: TagList, current: readonly string[]): boolean =>
  list === '*' || list.some(tag => current.includes(tag))

const matchesWeakly = (list: TagList, current: readonly string[]): boolean =>
  list === '*' || list.some(tag => current.includes(opaque(tag)))

/** Whether a read is to be told that what it has is what there is. A list that cannot be read is none. */
export function isNotModified({ 'if-none-match': value }: IncomingHttpHeaders, tag: string): boolean {
  const list = value === undefined ? undefined : parseTags(value)
  return list !== undefined && matchesWeakly(list, [tag])
}

/** On what a write depends: it is checked on the object as it is written, by the bodies that reads of it have now. @throws ApiError 412 */
type Precondition = (bodies: () => Promise<readonly string[]>) => Promise<void>

function listOf(name: string, value: string | undefined): TagList | undefined {
  if (value === undefined) return undefined
  const list = parseTags(value)
  if (list === undefined) throw badRequest(`${name}: must be * or a list of entity tags, each in double quotes`)
  return list
}

/** Undefined where the write depends on nothing. @throws ApiError 400 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const wanted = listOf('If-Match', headers['if-match'])
  const unwanted = listOf('If-None-Match', headers['if-none-match'])
  if (wanted === undefined && unwanted === undefined) return undefined
  return async bodies => {
    const tags = (await bodies()).map(entityTag)
    if (wanted !== undefined && !matches(wanted, tags))
      throw preconditionFailed('If-Match: the object has changed since: read it again, then decide')
    if (unwanted !== undefined && matchesWeakly(unwanted, tags))
      throw preconditionFailed('If-None-Match: the object is what it must not be')
  }
}
