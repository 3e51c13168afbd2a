/**
 * Where our answers may differ from those of PostgREST 12.0.2, and why: what PostgREST has changed itself up to 14, and what our contract says otherwise. Each rule says
 * exactly what ours has to be; everything else in which they differ is a fault of ours.
 */
import type { Asked } from '../request.ts'
import { ofCounts } from './counts.ts'
import { ofFound } from './found.ts'
import { ofHeaders } from './headers.ts'
import { ofRequests } from './requests.ts'
import type { Rule } from './rule.ts'
import { ofSeveral } from './several.ts'
import { ofWording } from './wording.ts'

/** In the order in which they change an answer. */
export const rules: readonly Rule[] = [...ofRequests, ...ofCounts, ...ofWording, ...ofFound, ...ofHeaders, ...ofSeveral]

/** The request in the words of 12.0.2, and the rules that made it so. */
export function translated(
  asked: Asked,
  all: readonly Rule[] = rules,
): { readonly asked: Asked; readonly by: readonly Rule[] } {
  let found = asked
  const by: Rule[] = []
  for (const rule of all) {
    const next = rule.asks?.(found)
    if (next === undefined) continue
    found = next
    by.push(rule)
  }
  return { asked: found, by }
}
