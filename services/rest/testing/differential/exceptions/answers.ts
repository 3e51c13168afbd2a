/** What exceptions of reads ask of requests and answers. */
import type { Answer } from '../../../../testing/client.ts'
import type { Asked } from '../request.ts'
import { codeOf } from './exception.ts'

export const says = ({ query }: Asked, text: RegExp): boolean => query.some(([, value]) => text.test(value))
export const names = ({ query }: Asked, text: RegExp): boolean => query.some(([name]) => text.test(name))
export const isAnswered = ({ status }: Answer): boolean => status < 300
export const aggregate = /(sum|avg|count|max|min)\(\)/
/** Errors of the database that are the server's fault by their codes. */
export const ofServer = /^(21|42P17|53400|54|55)/
export const isOfDatabase = (answer: Answer): boolean => /^[0-9A-Z]{5}$/.test(codeOf(answer))
/** Whether theirs says a text of this kind. */
export const tells = ({ text }: Answer, pattern: RegExp): boolean => pattern.test(text.replaceAll('\\"', '"'))
/** Without columns that go by the name of an embedding: one of them hides the other. */
export function withoutHidden({ query }: Asked, text: string): string {
  const selected = query.map(([, value]) => value).join()
  const embedded = [...selected.matchAll(/(?:(\w+):)?(\w+)(?:!\w+)*\(/g)].map(([, alias, name]) => alias ?? name)
  const hidden = new RegExp(`"(?:${embedded.join('|')})": ?[^{}[\\],\\s][^{}[\\],]*,? ?`, 'g')
  return embedded.length === 0 ? text : text.replaceAll(hidden, '')
}
