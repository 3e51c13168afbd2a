/**
 * Converts the target of a request to origin form: a client may send the absolute form with a host, as to a proxy (RFC
 * 9112, section 3.2.2).
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest === target || rest.startsWith('/') ? rest : `/${rest}`
}
