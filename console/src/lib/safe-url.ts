/** Returns the http or https URL of a text from the server. Returns undefined if a link to the text is not safe. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text == null || !/^https?:\/\//i.test(text)) return undefined
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'https:' || url.protocol === 'http:') ? url.href : undefined
}
