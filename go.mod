module nereid

go 1.26

ignore ./frontend/node_modules
