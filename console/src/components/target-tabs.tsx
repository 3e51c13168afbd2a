/** Links and tabs for the pages of a database or a branch. */
import { Link, useRouterState } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef } from 'react'
import type { BranchTab } from '../lib/tabs.ts'
import type { Target } from '../lib/target.ts'

type Props = { target: Target; tab: BranchTab; className: string; children: ReactNode }

/** A link to a page that both databases and branches have. */
export function TargetLink({ target: { id, branchId }, tab, ...rest }: Props) {
  if (branchId === undefined) return <Link to={`/databases/$id/${tab}`} params={{ id }} {...rest} />
  return <Link to={`/databases/$id/branches/$branch/${tab}`} params={{ id, branch: branchId }} {...rest} />
}

/** A row of tabs. On a narrow screen, it scrolls to the current tab. */
export function Tabs({ label, children }: { label: string; children: ReactNode }) {
  const pathname = useRouterState({ select: state => state.resolvedLocation?.pathname })
  const row = useRef<HTMLElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: each page has another current tab
  useEffect(() => {
    row.current?.querySelector('[aria-current=page]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [pathname])
  return (
    <nav ref={row} className="tabs" aria-label={label} data-keeps-focus="">
      {children}
    </nav>
  )
}
