/**
 * The first `length` UTF-16 code units of a text. Half of a split surrogate pair becomes U+FFFD, as an API server
 * stores it: otherwise a status would always differ from its stored form.
 */
export const shortened = (text: string, length: number): string => text.slice(0, length).toWellFormed()
