/**
 * The first `length` UTF-16 code units of a text. If this splits a surrogate pair, its half becomes U+FFFD, as an API
 * server stores it. Otherwise a status would always differ from its stored form.
 */
export const shortened = (text: string, length: number): string => text.slice(0, length).toWellFormed()
