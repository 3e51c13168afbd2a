/** An address from the server, if a link may lead there; otherwise undefined. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text == null || !/^https?:\/\//i.test(text)) return undefined
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'https:' || url.protocol === 'http:') ? url.href : undefined
}
