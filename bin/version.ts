/** What this program calls itself. */
import { readFileSync } from 'node:fs'

/** The version in package.json, which lies above in a checkout and in an image. */
export function version(): string {
  const content: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  return typeof content === 'object' && content !== null && 'version' in content ? String(content.version) : 'unknown'
}
