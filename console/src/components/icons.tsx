/** Icons. Screen readers skip them, and read the text beside the icon or the label of its button. */
const paths = {
  overview: 'M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z',
  plus: 'M8 3v10M3 8h10',
  operations: 'M2 8h3l2-5 2.5 10 2-5H14',
  audit: 'M3.5 2h9v12h-9zM6 5.500h4M6 8h4M6 10.500h2',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14',
  book: 'M3 3h4a1 1 0 0 1 1 1v9a1.5 1.5 0 0 0-1.5-1H3zM13 3H9a1 1 0 0 0-1 1v9a1.5 1.5 0 0 1 1.5-1H13z',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.5 6.5 12 13 4.5',
  chevron: 'M6 4l4 4-4 4',
  down: 'M4 6l4 4 4-4',
  copy: 'M6 6h7v7H6zM3 10V3h7',
  user: 'M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3.5 13.500a4.5 4.5 0 0 1 9 0',
  theme: 'M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  branch: 'M4.5 4v8M4.5 9c0-2 7-1 7-4M4.5 4a1.2 1.2 0 1 0 0-.01M11.5 4a1.2 1.2 0 1 0 0-.01M4.5 13a1.2 1.2 0 1 0 0-.01',
  warning: 'M8 2.5 14.5 13.500h-13zM8 6.500v3M8 11.500h.01',
  trash: 'M3 4.500h10M6.5 4.500V3h3v1.500M4.5 4.500l.5 9h6l.5-9',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === 'more' ? 2.2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  )
}

export function Logo() {
  return (
    <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#1f7a4d" />
      <path
        d="M16 26V7M16 21H9v-5M16 16h7v-5M16 11h-5V7"
        fill="none"
        stroke="#fff"
        strokeWidth="2.6"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  )
}
