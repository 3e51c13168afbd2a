/**
 * Which messages stay. The first, the recent ones, anchors and a few important ones must; of the rest the most important and the most recent that there is room for. A call and its
 * result stay or go together: providers refuse one without the other.
 */
import { moreImportant } from './classify.ts'
import { toolMentions } from './message.ts'
import { type Message, type MessageClass, messageClasses } from './request.ts'

/** Messages that stay or go together, by their places, in order. */
type Group = { readonly members: readonly number[]; readonly class: MessageClass; readonly tokens: number }

type Selecting = {
  readonly messages: readonly Message[]
  readonly classes: readonly MessageClass[]
  readonly tokens: readonly number[]
  readonly maximumTokens: number
  /** Of these, for a summary of what goes. */
  readonly reservedTokens: number
  readonly recentWindow: number
  readonly keepAnchors: boolean
  readonly minimumImportant: number
}

/** Sets that grow together where an id is shared. */
function groupsOf({ messages, classes, tokens }: Selecting): readonly Group[] {
  const leaders = messages.map((_, place) => place)
  const leaderOf = (place: number): number => {
    let at = place
    for (let above = leaders[at] ?? at; above !== at; above = leaders[at] ?? at) {
      leaders[at] = leaders[above] ?? above
      at = above
    }
    return at
  }
  const firstOf = new Map<string, number>()
  for (const [place, message] of messages.entries()) {
    for (const { id } of toolMentions(message)) {
      const first = firstOf.get(id)
      if (first === undefined) firstOf.set(id, place)
      else leaders[leaderOf(place)] = leaderOf(first)
    }
  }
  const members = Map.groupBy(leaders.keys(), leaderOf)
  return [...members.values()].map(places => ({
    members: places,
    class: places.map(place => classes[place] ?? 'routine').reduce(moreImportant),
    tokens: places.reduce((sum, place) => sum + (tokens[place] ?? 0), 0),
  }))
}

function mustStay(group: Group, { messages, recentWindow, keepAnchors }: Selecting): boolean {
  const recent = messages.length - recentWindow
  return (keepAnchors && group.class === 'anchor') || group.members.some(place => place === 0 || place >= recent)
}

const lastOf = ({ members }: Group) => members.at(-1) ?? 0
const rankOf = (one: Group) => messageClasses.indexOf(one.class)

/** @returns the places of those that stay, in order */
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
  let room = selecting.maximumTokens - selecting.reservedTokens
  for (const { tokens } of kept) room -= tokens
  for (const group of rest) {
    if (kept.has(group) || group.class === 'transient' || group.tokens > room) continue
    room -= group.tokens
    kept.add(group)
  }
  return [...kept].flatMap(({ members }) => members).sort((one, other) => one - other)
}

/**
 * Before which of the messages that stay something may be put in for those that go: where the first of those stood that is not between a call and its result. undefined: nowhere.
 */
export function gapOf(messages: readonly Message[], kept: readonly number[]): number | undefined {
  const stays = new Set(kept)
  const open = new Map<string, number>()
  for (const place of kept) {
    for (const { id } of toolMentions(messages[place] ?? { role: '', content: '' })) open.set(id, place)
  }
  let until = -1
  for (const [place, message] of messages.entries()) {
    if (stays.has(place)) for (const { id } of toolMentions(message)) until = Math.max(until, open.get(id) ?? -1)
    else if (place > until) return kept.filter(one => one < place).length
  }
  return undefined
}
