/** A branch in a tree, as a link to its pages. */
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../api/client.ts'
import { titleOf, withMark } from '../lib/branches.ts'
import { Icon } from './icons.tsx'

type Props = {
  branch: Schemas['Branch']
  /** The short id, where the title is not unique. */
  mark: string | undefined
  indent: number
}

export function BranchLink({ branch, mark, indent }: Props) {
  const { id, database_id: database, name, display_name: label } = branch
  return (
    <div className="name-cell" style={{ paddingInlineStart: indent }}>
      <Icon name="branch" size={14} />
      <Link
        to="/databases/$id/branches/$branch"
        params={{ id: database, branch: id }}
        className="name-link"
        aria-label={withMark(titleOf(branch), mark)}
      >
        {titleOf(branch)}
      </Link>
      {mark !== undefined && <span className="quiet mono nowrap">{mark}</span>}
      {label && <span className="quiet clip">{name}</span>}
    </div>
  )
}
