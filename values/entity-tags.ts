/** Entity tags (RFC 9110, section 8.8.3) as they stand in `If-Match` and `If-None-Match`: read, and compared. */

/** `*`, or tags as they stand in a header, each with its quotes; a weak one with its W/ before them. */
export type EntityTags = '*' | readonly string[]

/** As a list is to be written, for the API's description; empty items between commas are read, too. */
export const entityTagsPattern = /^([*]|(W[/])?"[!#-~]*"(, *(W[/])?"[!#-~]*")*)$/

/**
 * A space in a tag is against the RFC, but functions set such tags, and who was given one sends it back. Space between tags can be taken in one way
 * only: in two, a header full of it would be tried in a hundred million.
 */
const listItem = /[ \t]*(?:((?:W\/)?"[\x20\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?:,|$)/y

/** Undefined where it is no list of entity tags. */
export function readEntityTags(value: string): EntityTags | undefined {
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

/** By strong comparison: a weak tag is none. */
export const namesStrongly = (tags: EntityTags, tag: string): boolean =>
  tags === '*' || (!tag.startsWith('W/') && tags.includes(tag))

const opaque = (tag: string): string => tag.replace(/^W\//, '')

/** By weak comparison: whether a tag is weak does not matter. */
export const namesWeakly = (tags: EntityTags, tag: string): boolean =>
  tags === '*' || tags.some(one => opaque(one) === opaque(tag))
