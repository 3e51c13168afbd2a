/**
 * Decides which messages remain. The first message, recent messages, anchors and a few important messages always
 * remain. Of the other messages, the most important and most recent messages that fit remain. A call and its result
 * remain or are removed together, because providers refuse one without the other.
 */
import { moreImportant } from './classify.ts'
import { toolMentions } from './message.ts'
import { type Message, type MessageClass, messageClasses } from './request.ts'

/** Messages that remain or are removed together, as indexes in order. */
type Group = { readonly members: readonly number[]; readonly class: MessageClass; readonly tokens: number }

type Selecting = {
  readonly messages: readonly Message[]
  readonly classes: readonly MessageClass[]
  readonly tokens: readonly number[]
  readonly maximumTokens: number
  /** Tokens that the remaining messages must leave free for a summary. */
  readonly reservedTokens: number
  readonly recentWindow: number
  readonly keepAnchors: boolean
  readonly minimumImportant: number
}

/** Groups messages that share an id of a call. */
function groupsOf({ messages, classes, tokens }: Selecting): readonly Group[] {
  const leaders = messages.map((_, index) => index)
  const leaderOf = (index: number): number => {
    let at = index
    for (let above = leaders[at] ?? at; above !== at; above = leaders[at] ?? at) {
      leaders[at] = leaders[above] ?? above
      at = above
    }
    return at
  }
  const firstOf = new Map<string, number>()
  for (const [index, message] of messages.entries()) {
    for (const { id } of toolMentions(message)) {
      const first = firstOf.get(id)
      if (first === undefined) firstOf.set(id, index)
      else leaders[leaderOf(index)] = leaderOf(first)
    }
  }
  const members = Map.groupBy(leaders.keys(), leaderOf)
  return [...members.values()].map(indexes => ({
    members: indexes,
    class: indexes.map(index => classes[index] ?? 'routine').reduce(moreImportant),
    tokens: indexes.reduce((sum, index) => sum + (tokens[index] ?? 0), 0),
  }))
}

function mustStay(group: Group, { messages, recentWindow, keepAnchors }: Selecting): boolean {
  const recent = messages.length - recentWindow
  return (keepAnchors && group.class === 'anchor') || group.members.some(index => index === 0 || index >= recent)
}

const lastOf = ({ members }: Group) => members.at(-1) ?? 0
const rankOf = (one: Group) => messageClasses.indexOf(one.class)

/** Returns the indexes of the remaining messages, in order. */
export function select(selecting: Selecting): readonly number[] {
  const groups = groupsOf(selecting)
  const kept = new Set(groups.filter(group => mustStay(group, selecting)))
  const rest = groups
    .filter(group => !kept.has(group))
    .sort((one, other) => rankOf(one) - rankOf(other) || lastOf(other) - lastOf(one))
  let important = 0
  for (const group of rest) {
    if (rankOf(group) > messageClasses.indexOf('important') || important >= selecting.minimumImportant) break
    important += group.members.length
    kept.add(group)
  }
  let available = selecting.maximumTokens - selecting.reservedTokens
  for (const { tokens } of kept) available -= tokens
  for (const group of rest) {
    if (kept.has(group) || group.class === 'transient' || group.tokens > available) continue
    available -= group.tokens
    kept.add(group)
  }
  return [...kept].flatMap(({ members }) => members).sort((one, other) => one - other)
}

/**
 * Returns the position in `kept` for a summary: at the first removed message that is not between a call and its result.
 * Returns undefined if there is no such message.
 */
export function gapOf(messages: readonly Message[], kept: readonly number[]): number | undefined {
  const stays = new Set(kept)
  const open = new Map<string, number>()
  for (const index of kept) {
    for (const { id } of toolMentions(messages[index] ?? { role: '', content: '' })) open.set(id, index)
  }
  let until = -1
  for (const [index, message] of messages.entries()) {
    if (stays.has(index)) for (const { id } of toolMentions(message)) until = Math.max(until, open.get(id) ?? -1)
    else if (index > until) return kept.filter(one => one < index).length
  }
  return undefined
}
